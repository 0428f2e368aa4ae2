//! Messages in cc's way: lines for cargo on stdout, or calls of the user's logger.

use std::fmt::{self, Display};
use std::io::{self, Write};
use std::process::{Command, Output};
use std::sync::Arc;

use cc::{BuildMessage, BuildMessageKind, BuildMessageLogger};

use crate::outcome::Outcome;
use crate::report::{FileReport, PlainReason, Report};

/// The number of lines about one file; the rest is only counted.
const MAX_LINES: usize = 5;

/// The destination of messages. The settings repeat cc's, since cc has no getters for them.
#[derive(Clone)]
pub(crate) struct Console {
    pub(crate) metadata: bool,
    pub(crate) warnings: bool,
    pub(crate) output: bool,
    pub(crate) logger: Option<Arc<dyn BuildMessageLogger>>,
}

impl Default for Console {
    fn default() -> Self {
        Self { metadata: true, warnings: true, output: true, logger: None }
    }
}

impl Console {
    /// Forwards a compiler's output.
    pub(crate) fn forward(&self, command: &Command, output: &Output) {
        let mut stdout = io::stdout().lock();
        if self.output {
            // A write error is ignored: only the objects matter.
            let _ = stdout.write_all(&output.stdout);
        }
        for line in output.stderr.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            if self.warnings {
                let _ = stdout.write_all(&[b"cargo:warning=", line, b"\n"].concat());
            }
            if let Some(logger) = &self.logger {
                let text = String::from_utf8_lossy(line);
                logger.log(BuildMessageKind::StderrForwarding, BuildMessage::Str(text.trim_end()), command);
            }
        }
    }

    /// Prints a warning of this crate. Only cargo, which runs build scripts, reads these lines.
    fn warn(&self, message: &dyn Display) {
        let message = message.to_string().replace('\n', " ");
        if self.warnings && self.metadata {
            println!("cargo:warning={message}");
        }
        if let Some(logger) = &self.logger {
            logger.log(BuildMessageKind::GeneralWarning, BuildMessage::Str(&message), &());
        }
    }

    /// Prints which files and functions should have sites but have none.
    pub(crate) fn warn_of(&self, report: &Report) {
        let mut warned: Vec<&PlainReason> = Vec::new();
        for file in report.files() {
            match file.plain() {
                Some(reason) if !reason.is_worth_a_warning() || warned.contains(&reason) => {}
                Some(reason) if reason.is_of_the_build() => {
                    warned.push(reason);
                    self.warn(&format_args!("C and C++ code has no probes: {reason}"));
                }
                Some(reason) => {
                    self.warn(&format_args!("{} has no probes: {reason}", file.source().display()));
                }
                None => self.warn_of_left_out(file),
            }
        }
    }

    fn warn_of_left_out(&self, file: &FileReport) {
        let left_out: Vec<_> = file
            .functions()
            .iter()
            .filter_map(|function| match function.outcome() {
                Outcome::LeftOut(reason) => Some((function, reason)),
                _ => None,
            })
            .collect();
        let source = file.source().display();
        for (function, reason) in left_out.iter().take(MAX_LINES) {
            self.warn(&format_args!("{source}: no probes in `{}`: {reason}", function.path()));
        }
        if left_out.len() > MAX_LINES {
            let rest = left_out.len() - MAX_LINES;
            self.warn(&format_args!(
                "{source}: no probes in {rest} more functions (see probe_build::Report)"
            ));
        }
    }
}

impl fmt::Debug for Console {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { metadata, warnings, output, logger } = self;
        f.debug_struct("Console")
            .field("metadata", metadata)
            .field("warnings", warnings)
            .field("output", output)
            .field("logger", &logger.is_some())
            .finish()
    }
}
