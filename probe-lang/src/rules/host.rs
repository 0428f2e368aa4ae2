//! The host of the rules' driver: a program, and the log of its rules. Pure: a trait.

use std::fmt::{self, Display};
use std::time::Duration;

use super::engine::Totals;
use super::figure::{Figure, reasons};
use super::rule::Rule;
use super::window::Reading;

/// A program with probes, and the log. An error of the log is a `Failure`, which ends the rules.
pub trait RuleHost {
    /// Consumers that are attached.
    type Attachment;
    /// A file that the host has created for a trace; it displays its path.
    type File: Display;
    /// Why no rule can be followed any further.
    type Failure;

    /// The event of an armed text at the end of the rules: `Disarmed` or `Left`.
    const END: Event;

    /// Writes an event, of a rule by its number from 0.
    ///
    /// # Errors
    /// If the log can't be written any further.
    fn log(&mut self, event: Event, rule: Option<usize>, text: impl Display) -> Result<(), Self::Failure>;

    /// Writes that a rule has fired.
    ///
    /// # Errors
    /// If the log can't be written any further.
    fn log_fired(&mut self, firing: &Firing<'_>) -> Result<(), Self::Failure> {
        self.log(Event::Fired, Some(firing.rule), firing)
    }

    /// Writes the numbers of a rule.
    ///
    /// # Errors
    /// If the log can't be written any further.
    fn log_summary(&mut self, rule: usize, totals: Totals) -> Result<(), Self::Failure> {
        self.log(Event::Summary, Some(rule), totals)
    }

    /// Returns the time since the beginning of the log.
    fn elapsed(&self) -> Duration;

    /// Returns whether the program can be asked. If not, nothing is read, attached or finished.
    fn is_up(&self) -> bool {
        true
    }

    /// Attaches consumers. Returns notes on them, too.
    ///
    /// # Errors
    /// If they can't be attached.
    fn attach(&mut self, spec: &str) -> Answer<(Self::Attachment, Vec<String>), Self>;

    /// Tries a text that a rule arms when it fires, so that a mistake shows at the start.
    ///
    /// # Errors
    /// The mistake.
    fn try_arm(&mut self, _spec: &str) -> Answer<(), Self> {
        Ok(())
    }

    /// Detaches. Returns notes on what the consumers have missed.
    ///
    /// # Errors
    /// If they can't be detached.
    fn detach(&mut self, attachment: Self::Attachment) -> Answer<Vec<String>, Self>;

    /// Reads the consumers of a figure.
    ///
    /// # Errors
    /// If they can't be read.
    fn read(&mut self, attachment: &Self::Attachment) -> Answer<Reading, Self>;

    /// Creates a file of this name, or of a similar one that is free.
    ///
    /// # Errors
    /// Why it can't be created, with its name.
    fn create(&mut self, name: &str) -> Result<Self::File, String>;

    /// Begins to record a trace in a file. Returns notes on it, too.
    ///
    /// # Errors
    /// If it can't be recorded. The file is removed.
    fn record(&mut self, selector: &str, file: Self::File) -> Answer<(Self::Attachment, Vec<String>), Self>;

    /// Detaches a trace, and finishes its file. Returns a report.
    ///
    /// # Errors
    /// Why the file may lack events.
    fn finish_recording(&mut self, attachment: Self::Attachment) -> Answer<String, Self>;

    /// Writes the events of a rule's flight recorder to a file of this name. Without a recorder,
    /// the program's only one is meant that is not among the `others`. Returns the text of the
    /// event, and notes.
    ///
    /// # Errors
    /// If there is no such recorder, or the file can't be written.
    fn snapshot(
        &mut self,
        recorder: Option<&Self::Attachment>,
        others: &[&Self::Attachment],
        name: &str,
    ) -> Answer<(String, Vec<String>), Self>;

    /// Starts a command.
    ///
    /// # Errors
    /// Why it can't be started.
    fn run(&mut self, _command: &str, _firing: &Firing<'_>) -> Result<(), String> {
        Err("a program runs no commands for its rules".to_owned())
    }

    /// Logs that the connection to the program is lost. Returns whether the program has ended.
    ///
    /// # Errors
    /// If the log can't be written any further.
    fn lost(&mut self, _reason: &str) -> Result<bool, Self::Failure> {
        Ok(false)
    }
}

/// An answer of a host.
pub type Answer<T, H> = Result<T, HostError<<H as RuleHost>::Failure>>;

/// Why a host could not do something.
#[derive(Debug)]
pub enum HostError<F> {
    /// For this reason.
    Refused(String),
    /// The text of the consumers is malformed.
    Malformed(String),
    /// The attachment has gone: somebody else has detached it.
    Gone(String),
    /// The connection to the program has just ended, and with it all attachments.
    Lost(String),
    /// No rule can be followed any further.
    Fatal(F),
}

/// A firing of a rule. Its text is that of the log.
#[derive(Clone, Copy, Debug)]
pub struct Firing<'a> {
    /// The rule's number, from 0.
    pub rule: usize,
    /// The rule.
    pub text: &'a Rule,
    /// The number of the firing, from 1.
    pub number: u32,
    /// The figures that made the condition hold, and their values.
    pub values: &'a [(Figure, f64)],
}

impl Display for Firing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}: {}", self.number, self.text.at_most(), reasons(self.values))
    }
}

/// An event of the log. Its word there is its name in lower case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// The rules are followed from now on.
    Watching,
    /// A rule waits for its condition, at the start.
    Waiting,
    /// A condition has held for its time.
    Fired,
    /// A firing is over.
    Ended,
    /// Consumers were attached for a rule.
    Armed,
    /// They were detached.
    Disarmed,
    /// A recording has begun.
    Recording,
    /// A recording is whole.
    Recorded,
    /// A snapshot was written.
    Snapshot,
    /// A command was started.
    Started,
    /// A command has ended.
    Done,
    /// An action, a reading or an attachment failed.
    Failed,
    /// The connection has ended.
    Lost,
    /// The program is stopped, so it answers nothing.
    Stopped,
    /// The program is resumed, or answers again.
    Back,
    /// Something stays after the end of the program or of the rules.
    Left,
    /// A note of the program on an attachment.
    Note,
    /// The numbers of a rule, at the end.
    Summary,
}

impl Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{self:?}").to_lowercase())
    }
}
