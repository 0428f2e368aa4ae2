//! The log of rules: a line for each event, on stderr or in a file.

use std::fmt;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::engine::os::guarded_file::GuardedFile;
use crate::engine::os::stderr::print_line;
use crate::session::agent::client_rules::VARIABLE;
use probe_lang::rules::Event;

/// The place for lines.
pub(super) struct Log {
    begin: Instant,
    /// `None` for stderr.
    file: Option<GuardedFile>,
}

impl Log {
    /// Opens the file, to add to it. If it can't be opened, lines go to stderr, and one says so.
    pub(super) fn open(path: Option<&Path>) -> Self {
        let mut options = OpenOptions::new();
        // A pipe that nobody reads must not stop the program, nor a full one its rules.
        options.append(true).create(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
        let file = path.and_then(|path| match options.open(path) {
            Ok(file) => Some(GuardedFile::stream(file).move_to_high_number()),
            Err(error) => {
                print_line(&format!("{VARIABLE}_LOG: {} can't be written: {error}", path.display()));
                None
            }
        });
        Self { begin: Instant::now(), file }
    }

    /// Returns the time since the beginning.
    pub(super) fn elapsed(&self) -> Duration {
        self.begin.elapsed()
    }

    /// Writes an event, of a rule by its number from 0. Control characters become spaces.
    pub(super) fn event(&mut self, event: Event, rule: Option<usize>, text: impl fmt::Display) {
        let rule = rule.map(|rule| format!("rule {} ", rule.saturating_add(1))).unwrap_or_default();
        let line = format!("{rule}{event}: {text}").replace(char::is_control, " ");
        if let Some(file) = &mut self.file {
            let seconds = self.begin.elapsed().as_secs_f64();
            match file.write_all(format!("{seconds:>10.3}  {line}\n").as_bytes()) {
                Ok(()) => return,
                Err(error) => {
                    print_line(&format!("{VARIABLE}_LOG: the file can't be written: {error}"));
                    self.file = None;
                }
            }
        }
        print_line(&format!("{VARIABLE}: {line}"));
    }
}
