//! `PROBE_CC_LOG`: a file with a line for each source, as compilers append them side by side.

use std::env;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use probe_build::{FileReport, Outcome, PlainReason};

use crate::setup::Setup;

const VARIABLE: &str = "PROBE_CC_LOG";

/// The log, if one is wanted.
pub(crate) struct Log {
    file: Option<File>,
    folder: PathBuf,
}

impl Log {
    /// Opens the log; `folder` is that of relative names of sources.
    pub(crate) fn open(folder: &Path) -> Result<Self, Setup> {
        let path = env::var_os(VARIABLE).filter(|it| !it.is_empty()).map(PathBuf::from);
        let open = |path: PathBuf| {
            let file = OpenOptions::new().append(true).create(true).open(&path);
            file.map_err(|error| Setup::Log { file: path.display().to_string(), error })
        };
        Ok(Self { file: path.map(open).transpose()?, folder: folder.to_owned() })
    }

    /// Says that a source's object is the compiler's own.
    pub(crate) fn plain(&self, source: &Path, reason: &PlainReason) {
        self.line(source, &format!("no sites: {reason}"));
    }

    /// Says what became of a source's functions.
    pub(crate) fn placed(&self, report: &FileReport, without: Option<&str>) {
        if self.file.is_some() {
            self.line(report.source(), &described(report, without));
        }
    }

    fn line(&self, source: &Path, text: &str) {
        let Some(mut file) = self.file.as_ref() else { return };
        let line = format!("{}: {text}", self.folder.join(source).display()).replace('\n', " ");
        // One write, so that lines of other processes stay whole. A full disk costs the log only.
        let _ = file.write_all(format!("{line}\n").as_bytes());
    }
}

fn described(report: &FileReport, without: Option<&str>) -> String {
    let count = |is_such: fn(&Outcome) -> bool| {
        report.functions().iter().filter(|function| is_such(function.outcome())).count()
    };
    let placed = count(|it| matches!(it, Outcome::Placed { .. }));
    let excluded = count(|it| matches!(it, Outcome::Excluded(_)));
    let mut text = format!("{placed} functions with sites");
    if excluded > 0 {
        let _ = write!(text, ", {excluded} excluded");
    }
    if let Some(flag) = without {
        let _ = write!(text, ", compiled without {flag}");
    }
    for function in report.functions() {
        if let Outcome::LeftOut(reason) = function.outcome() {
            let _ = write!(text, "; left out {}: {reason}", function.path());
        }
    }
    text
}
