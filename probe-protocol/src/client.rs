//! A blocking client. Linux.
//!
//! Life cycle: [`Client::connect`] finds the program's socket, checks that it is that program's,
//! and exchanges greetings ▸ each method sends a request and waits for its answer ▸ dropping the
//! client ends the connection, and all of its attachments that it has not kept.

use std::fs::File;
use std::mem;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use probe_report::{Document, Part, View};

use crate::channel::{Channel, ChannelError};
use crate::directory::file_name;
use crate::discovery::{ANSWER_TIMEOUT, CONNECT_TIMEOUT, Program, client_error};
use crate::error::ClientError;
use crate::frame::{decode_reply, decode_welcome, encode_call, greeting};
use crate::message::{Attach, Attached, Body, Call, Done, Hello, Probe, Reply, ReportForm, Request, Status};

/// A connection to a running program.
///
/// An attachment stays until it is detached, or until the client is dropped, its process ends, or
/// the program ends. [`Attach::keep`] and [`Client::keep`] let an attachment outlive the client.
///
/// ```no_run
/// use std::time::Duration;
///
/// use probe_protocol::{Attach, Client, Liveness};
///
/// let mut client = Client::connect(4711)?;
/// let attached = client.attach(&Attach::new("net::**=count"))?;
/// // A sleep that ends early if the program ends.
/// if client.wait_for_end(Duration::from_secs(5))? != Liveness::Ended {
///     client.pause(attached.id)?; // the report's numbers are final
///     println!("{}", client.report(attached.id, 0, "json")?.text);
///     client.detach(attached.id)?;
/// }
/// # Ok::<(), probe_protocol::ClientError>(())
/// ```
#[derive(Debug)]
pub struct Client {
    channel: Channel,
    hello: Hello,
    path: PathBuf,
    last_id: u32,
    timeout: Duration,
    /// The bytes of the answer so far, as [`counted_bytes`] counts them.
    answer_bytes: usize,
    is_exiting: bool,
}

/// Whether a program still runs.
///
/// ```
/// use probe_protocol::Liveness;
///
/// assert_ne!(Liveness::Exiting, Liveness::Ended);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Liveness {
    /// It does.
    Running,
    /// It is about to exit, and waits until this client has its last reports, and is dropped. Only
    /// a program whose parent is this process does so.
    Exiting,
    /// It has ended the connection.
    Ended,
}

/// The most bytes of an answer.
const MAX_ANSWER_BYTES: usize = 512 << 20;
/// The least bytes that a part counts as. An agent's parts have some 32 KiB, but for the last one,
/// so only an answer without an end has many small ones.
const MIN_PART_BYTES: usize = 16 << 10;

/// A report, and the lines that complete it.
///
/// ```no_run
/// # let mut client = probe_protocol::Client::connect(4711)?;
/// let report = client.report(1, 0, "csv")?;
/// print!("{}", report.text);
/// report.notes.iter().for_each(|note| eprintln!("{note}"));
/// # Ok::<(), probe_protocol::ClientError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Report {
    /// The report, in the asked format.
    pub text: String,
    /// Lines that the format has no place for. A report as text or JSON ends with its notes.
    pub notes: Vec<String>,
    /// Nanoseconds of CPU time that the program has used for this client since the last answer that
    /// told them: [`Done::cpu_ns`].
    pub cpu_ns: u64,
}

/// A report as values, see [`Client::view`] and [`Client::document`].
///
/// ```no_run
/// # let mut client = probe_protocol::Client::connect(4711)?;
/// print!("{:80}", client.view(1, 0)?.values); // within 80 columns
/// for row in client.document(1, 0, &[])?.values.rows {
///     println!("{:?} {:?}", row.text("function"), row.number("calls"));
/// }
/// # Ok::<(), probe_protocol::ClientError>(())
/// ```
#[derive(Clone, PartialEq, Default, Debug)]
pub struct ReportValues<V> {
    /// The values, with their notes.
    pub values: V,
    /// See [`Report::cpu_ns`].
    pub cpu_ns: u64,
}

impl Client {
    /// Connects to a process. The process may run in a container: its socket is searched in its own
    /// file system, and by its own id. Removes the socket of a program that has ended or has become
    /// another one.
    ///
    /// # Errors
    /// [`ClientError`]; [`ClientError::NoAgent`] if the process serves no socket.
    pub fn connect(pid: u32) -> Result<Self, ClientError> {
        let program = Program::new(pid)?;
        let mut searched = Vec::new();
        for folder in program.folders() {
            let path = folder.join(file_name(program.inner_pid));
            match program.connect(&folder, &path)? {
                Some(channel) => return Self::greet(channel, path),
                None => searched.push(path),
            }
        }
        Err(ClientError::NoAgent { pid, searched })
    }

    /// Connects to a socket by its path, whoever serves it.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn connect_to(path: &Path) -> Result<Self, ClientError> {
        let channel = Channel::connect(path, CONNECT_TIMEOUT).map_err(|error| client_error(path, error))?;
        Self::greet(channel, path.to_owned())
    }

    fn greet(channel: Channel, path: PathBuf) -> Result<Self, ClientError> {
        // An agent that refuses may have ended the connection already. Its answer gives the reason.
        match channel.send(&greeting(), None, CONNECT_TIMEOUT) {
            Ok(()) | Err(ChannelError::Ended) => (),
            Err(error) => return Err(client_error(&path, error)),
        }
        let received = channel
            .receive(Some(CONNECT_TIMEOUT), CONNECT_TIMEOUT)
            .map_err(|error| client_error(&path, error))?;
        let welcome = decode_welcome(&received.ok_or(ClientError::Ended)?.payload)?;
        let hello = welcome.map_err(ClientError::Failed)?;
        Ok(Self {
            channel,
            hello,
            path,
            last_id: 0,
            timeout: ANSWER_TIMEOUT,
            answer_bytes: 0,
            is_exiting: false,
        })
    }

    /// Returns the program's greeting.
    pub fn hello(&self) -> &Hello {
        &self.hello
    }

    /// Returns the socket's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Sets how long to wait for an answer, or for a part of one; 30 seconds by default. A program
    /// with a million probes may take a second to switch them all. Returns the time until now.
    pub fn set_timeout(&mut self, timeout: Duration) -> Duration {
        mem::replace(&mut self.timeout, timeout)
    }

    /// Lists the probes of a selector, or all if it is empty, by their numbers.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn list(&mut self, selector: &str) -> Result<Vec<Probe>, ClientError> {
        let mut all = Vec::new();
        self.list_each(selector, |probe| all.push(probe))?;
        Ok(all)
    }

    /// Calls `each` with the probes of a selector, as they come.
    ///
    /// # Errors
    /// [`ClientError`]. Some probes may have come before.
    pub fn list_each(&mut self, selector: &str, mut each: impl FnMut(Probe)) -> Result<(), ClientError> {
        self.send(Request::List { selector: selector.to_owned() }, None)?;
        loop {
            match self.next_part()? {
                Body::Probes(probes) => probes.into_iter().for_each(&mut each),
                Body::Done(_) => return Ok(()),
                _ => return Err(ClientError::Unexpected),
            }
        }
    }

    /// Returns the program's status.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn status(&mut self) -> Result<Status, ClientError> {
        self.send(Request::Status, None)?;
        match self.next_part()? {
            Body::Status(status) => Ok(status),
            _ => Err(ClientError::Unexpected),
        }
    }

    /// Attaches consumers.
    ///
    /// # Errors
    /// [`ClientError`]; nothing stays attached then. If no answer came in time, the program may
    /// still attach them, until this client is dropped.
    pub fn attach(&mut self, attach: &Attach) -> Result<Attached, ClientError> {
        self.attach_with(attach, None)
    }

    /// Attaches one `trace`, which the program writes to this open file while it runs. The file's
    /// [name](Attach::output) chooses the format.
    ///
    /// The program writes from the file's beginning, with its own descriptor. Truncate the file
    /// before. [`detach`](Self::detach) returns once the file is whole.
    ///
    /// ```no_run
    /// use std::fs::File;
    ///
    /// use probe_protocol::{Attach, Client};
    ///
    /// let mut client = Client::connect(4711)?;
    /// let file = File::create("run.pftrace").unwrap();
    /// let attach = Attach { output: Some("run.pftrace".to_owned()), ..Attach::new("net::**=trace") };
    /// let attached = client.record(&attach, &file)?;
    /// // …
    /// client.pause(attached.id)?;
    /// println!("{}", client.report(attached.id, 0, "txt")?.text);
    /// client.detach(attached.id)?;
    /// # Ok::<(), probe_protocol::ClientError>(())
    /// ```
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn record(&mut self, attach: &Attach, file: &File) -> Result<Attached, ClientError> {
        self.attach_with(attach, Some(file.as_fd()))
    }

    fn attach_with(
        &mut self,
        attach: &Attach,
        file: Option<BorrowedFd<'_>>,
    ) -> Result<Attached, ClientError> {
        self.send(Request::Attach(attach.clone()), file)?;
        match self.next_part()? {
            Body::Attached(attached) => Ok(attached),
            _ => Err(ClientError::Unexpected),
        }
    }

    /// Returns the current report of a consumer: its place in the attachment's text, from 0. The
    /// format is the ending of a report's file, such as `txt` or `json`. The client makes these two
    /// of the values that the program sends.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn report(&mut self, attachment: u32, consumer: u32, format: &str) -> Result<Report, ClientError> {
        match format {
            "txt" => {
                let ReportValues { values, cpu_ns } = self.view(attachment, consumer)?;
                Ok(Report { text: values.to_string(), notes: Vec::new(), cpu_ns })
            }
            "json" => {
                let form = ReportForm::Document { only: Vec::new() };
                let (mut document, mut text) = (Document::default(), String::new());
                let Done { notes, cpu_ns } =
                    self.read_report(attachment, consumer, form, |body| match body {
                        Body::Report(part) => document.add(part),
                        Body::Text(part) => {
                            text.push_str(&part);
                            true
                        }
                        _ => false,
                    })?;
                let text = if text.is_empty() { document.json() } else { text };
                Ok(Report { text, notes, cpu_ns })
            }
            format => {
                let (form, mut text) = (ReportForm::File { format: format.to_owned() }, String::new());
                let Done { notes, cpu_ns } = self.read_report(attachment, consumer, form, |body| {
                    let Body::Text(part) = body else { return false };
                    text.push_str(&part);
                    true
                })?;
                Ok(Report { text, notes, cpu_ns })
            }
        }
    }

    /// Returns the current report of a consumer as people see it. It is drawn in the width that the
    /// formatter has.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn view(
        &mut self,
        attachment: u32,
        consumer: u32,
    ) -> Result<ReportValues<View<'static>>, ClientError> {
        let mut values = View::text("");
        let add = of_values(|part| values.add(part));
        let Done { notes, cpu_ns } = self.read_report(attachment, consumer, ReportForm::View, add)?;
        values.notes.extend(notes);
        Ok(ReportValues { values, cpu_ns })
    }

    /// Returns the values of a report of one of the runtime's consumers. With numbers of probes, it
    /// may lack the functions that have none of these [numbers](Probe::number), and notes about
    /// sites: `latency` and `profile` leave functions out. So a program of thousands of functions
    /// takes as little time for an answer as one of a few.
    ///
    /// # Errors
    /// [`ClientError`]; [`ClientError::Unexpected`] for a consumer of the program's own, which has
    /// no values.
    pub fn document(
        &mut self,
        attachment: u32,
        consumer: u32,
        only: &[u32],
    ) -> Result<ReportValues<Document<'static>>, ClientError> {
        let form = ReportForm::Document { only: only.to_vec() };
        let mut values = Document::default();
        let add = of_values(|part| values.add(part));
        let Done { notes, cpu_ns } = self.read_report(attachment, consumer, form, add)?;
        values.notes.extend(notes);
        Ok(ReportValues { values, cpu_ns })
    }

    /// Asks for a report, and reads its parts: `add` returns whether one is as expected.
    fn read_report(
        &mut self,
        attachment: u32,
        consumer: u32,
        form: ReportForm,
        mut add: impl FnMut(Body) -> bool,
    ) -> Result<Done, ClientError> {
        self.send(Request::Report { attachment, consumer, form }, None)?;
        loop {
            match self.next_part()? {
                Body::Done(end) => return Ok(end),
                part => {
                    if !add(part) {
                        return Err(ClientError::Unexpected);
                    }
                }
            }
        }
    }

    /// Writes what a flight recorder (`trace(flight)`) holds to this open file, in the format of
    /// this ending: `pftrace`, `probetrace`, `json`, `firefox.json`, `folded`. Returns notes on
    /// missing parts.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn snapshot(
        &mut self,
        attachment: u32,
        consumer: u32,
        format: &str,
        file: &File,
    ) -> Result<Vec<String>, ClientError> {
        let request = Request::Snapshot { attachment, consumer, format: format.to_owned() };
        self.complete(request, Some(file.as_fd()))
    }

    /// Makes an attachment's sites latent, so that its reports are final.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn pause(&mut self, attachment: u32) -> Result<Vec<String>, ClientError> {
        self.complete(Request::Pause { attachment }, None)
    }

    /// Makes a paused attachment's sites active again.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn resume(&mut self, attachment: u32) -> Result<Vec<String>, ClientError> {
        self.complete(Request::Resume { attachment }, None)
    }

    /// Detaches. Returns notes on missing parts of a trace's file.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn detach(&mut self, attachment: u32) -> Result<Vec<String>, ClientError> {
        self.complete(Request::Detach { attachment }, None)
    }

    /// Lets an attachment outlive this client. Any client may detach it then.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn keep(&mut self, attachment: u32) -> Result<(), ClientError> {
        self.complete(Request::Keep { attachment }, None).map(drop)
    }

    /// Keeps an agent that was injected for clients, and would end with the last of them.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn keep_agent(&mut self) -> Result<(), ClientError> {
        self.complete(Request::KeepAgent, None).map(drop)
    }

    /// Ends the agent with its attachments, its connections and its socket. With `only_unused`, the
    /// agent refuses if it has another client or an attachment, or if it is kept. Returns notes.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn shut_down(mut self, only_unused: bool) -> Result<Vec<String>, ClientError> {
        self.complete(Request::Shutdown { only_unused }, None)
    }

    /// Waits at most for this time, and returns early if the program ends the connection, or is
    /// about to. A later call returns at once then.
    ///
    /// # Errors
    /// [`ClientError::System`].
    pub fn wait_for_end(&mut self, at_most: Duration) -> Result<Liveness, ClientError> {
        let begin = Instant::now();
        while !self.is_exiting {
            match self.channel.receive_unasked(at_most.saturating_sub(begin.elapsed())) {
                Ok(None) => return Ok(Liveness::Running),
                Ok(Some(frame)) => self.note_exit(&decode_reply(&frame.payload)?),
                Err(ChannelError::Ended) => return Ok(Liveness::Ended),
                Err(error) => return Err(client_error(&self.path, error)),
            }
        }
        Ok(Liveness::Exiting)
    }

    /// Notes that the program is about to exit, if this says so.
    fn note_exit(&mut self, reply: &Reply) {
        self.is_exiting |= matches!(reply, Reply { id: 0, body: Body::Done(_) });
    }

    fn complete(
        &mut self,
        request: Request,
        file: Option<BorrowedFd<'_>>,
    ) -> Result<Vec<String>, ClientError> {
        self.send(request, file)?;
        match self.next_part()? {
            Body::Done(Done { notes, .. }) => Ok(notes),
            _ => Err(ClientError::Unexpected),
        }
    }

    fn send(&mut self, request: Request, file: Option<BorrowedFd<'_>>) -> Result<(), ClientError> {
        self.last_id = self.last_id.checked_add(1).unwrap_or(1);
        self.answer_bytes = 0;
        let call = encode_call(&Call { id: self.last_id, request });
        match self.channel.send(&call, file, self.timeout) {
            // The answer may give the reason.
            Ok(()) | Err(ChannelError::Ended) => Ok(()),
            Err(error) => Err(client_error(&self.path, error)),
        }
    }

    /// Returns the next part of the answer. Answers to earlier requests, which came too late, are
    /// skipped.
    fn next_part(&mut self) -> Result<Body, ClientError> {
        let begin = Instant::now();
        loop {
            let left = self.timeout.saturating_sub(begin.elapsed());
            let received = self.channel.receive(Some(left), self.timeout);
            let received =
                received.map_err(|error| client_error(&self.path, error))?.ok_or(ClientError::Ended)?;
            let reply = decode_reply(&received.payload)?;
            self.answer_bytes += counted_bytes(received.payload.len(), &reply.body);
            if self.answer_bytes > MAX_ANSWER_BYTES {
                return Err(ClientError::TooLong);
            }
            self.note_exit(&reply);
            match reply {
                Reply { id, body: Body::Failed(failure) } if id == self.last_id || id == 0 => {
                    return Err(ClientError::Failed(failure));
                }
                Reply { id, body } if id == self.last_id => return Ok(body),
                Reply { .. } if begin.elapsed() >= self.timeout => return Err(ClientError::TimedOut),
                Reply { .. } => (),
            }
        }
    }
}

impl AsFd for Client {
    /// Returns the socket, to wait for its end beside other descriptors. Its bytes are this
    /// client's to read.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }
}

/// Returns the bytes that a part of an answer counts as. A probe or a value may have a few bytes in
/// a frame, and more of them in memory.
fn counted_bytes(payload: usize, body: &Body) -> usize {
    let memory = match body {
        Body::Probes(probes) => size_of_val(&probes[..]),
        Body::Report(part) => part.memory(),
        _ => 0,
    };
    payload.max(memory).max(MIN_PART_BYTES)
}

/// Passes on the parts of a report that is made of values only.
fn of_values(mut add: impl FnMut(Part<'static>) -> bool) -> impl FnMut(Body) -> bool {
    move |body| match body {
        Body::Report(part) => add(part),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use probe_report::{Part, Row};

    #[test]
    fn parts_count_by_the_memory_that_they_take() {
        assert_eq!(counted_bytes(9, &Body::Text(String::new())), 16 << 10);
        assert_eq!(counted_bytes(40_000, &Body::Text(String::new())), 40_000);
        let rows = Body::Report(Part::Rows(vec![Row::new(); 1000]));
        assert_eq!(counted_bytes(1_003, &rows), 1000 * size_of::<Row<'_>>());
        assert_eq!(counted_bytes(9, &Body::Probes(vec![Probe::default(); 1000])), 1000 * size_of::<Probe>());
    }
}
