//! Snapshots of flight recorders, each a file beside the recorder's report.

use std::any::Any;
use std::io;
use std::path::PathBuf;
use std::sync::Weak;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use super::super::Format;
use super::super::reported::Reported;
use crate::consumers::Trace;
use crate::engine::control::Attachment;
use crate::engine::sites::TextPolicy;
use crate::report::{Staged, file};

/// An attached flight recorder.
pub(super) struct Recorder {
    /// The recorder may be detached while a trigger still runs.
    pub(super) reported: Weak<dyn Reported>,
    /// The file of its report, with an ending.
    pub(super) report: PathBuf,
    pub(super) format: Format,
}

/// The flight recorders of a text.
pub(super) struct Recorders {
    pub(super) all: Vec<Recorder>,
    /// How their sites are written, and those of triggers.
    pub(super) text: TextPolicy,
}

/// Returns the next number of a snapshot, from 1. All triggers of the process share the numbers:
/// texts may name the same files, at once or one after another.
pub(super) fn next_number() -> u32 {
    static LAST: AtomicU32 = AtomicU32::new(0);
    LAST.fetch_add(1, Relaxed) + 1
}

impl Recorders {
    /// Calls `run` with each recorder that is attached.
    pub(super) fn each(&self, mut run: impl FnMut(&Attachment<Trace>)) {
        for recorder in &self.all {
            let Some(reported) = recorder.reported.upgrade() else { continue };
            let any: &dyn Any = &*reported;
            any.downcast_ref().into_iter().for_each(&mut run);
        }
    }

    /// Writes a snapshot of each recorder. Returns the files, each with notes on missing parts.
    pub(super) fn write(&self, number: Option<u32>) -> Vec<(PathBuf, io::Result<Vec<String>>)> {
        let attached = self.all.iter().filter_map(|it| Some((it, it.reported.upgrade()?)));
        let written = attached.map(|(recorder, reported)| {
            let format =
                if reported.is_streamed(recorder.format) { recorder.format } else { Format::Perfetto };
            let path = recorder.file(format, number);
            let mut staged = Staged::new(path.clone());
            let written = reported.write(format, &mut staged).and_then(|missing| {
                staged.sync()?;
                staged.finish()?;
                Ok(missing)
            });
            (path, written)
        });
        written.collect()
    }
}

impl Recorder {
    /// Returns the file of a snapshot: `run-12.pftrace` has `run-12-snapshot-1.pftrace` beside it.
    fn file(&self, format: Format, number: Option<u32>) -> PathBuf {
        let mut name = file::without_ending(&self.report).into_os_string();
        name.push("-snapshot");
        number.into_iter().for_each(|number| name.push(format!("-{number}")));
        name.push(format!(".{}", format.ending()));
        name.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_stand_beside_the_report() {
        for (report, format, number, file) in [
            ("/tmp/run-12.pftrace", Format::Perfetto, Some(1), "/tmp/run-12-snapshot-1.pftrace"),
            ("/tmp/app.2.json", Format::Json, Some(12), "/tmp/app.2-snapshot-12.json"),
            ("/tmp/app.2.firefox.json", Format::Firefox, Some(1), "/tmp/app.2-snapshot-1.firefox.json"),
            ("app.2-1-trace.txt", Format::Perfetto, None, "app.2-1-trace-snapshot.pftrace"),
        ] {
            let reported: Weak<Attachment<Trace>> = Weak::new();
            let recorder = Recorder { reported, report: report.into(), format: Format::Text };
            assert_eq!(recorder.file(format, number).to_str(), Some(file));
        }
    }
}
