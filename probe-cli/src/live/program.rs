//! The program that a command is about: chosen by its process id or its name, or started here.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use probe_protocol::{AgentSocket, Attached, Client, ClientError, FailureKind, sockets};

use super::child::{ChildProgram, failure_note};
use super::injected_agent::{InjectedAgent, wait_agent_exit, waiting_for_exit};
use super::stop::{Stop, WatchEnd};
use crate::inject::inject;
use crate::output::{Failure, print_note};
use crate::preload::{Preload, Starting, library};
use crate::proc_files::Stat;
use crate::progress::Progress;
use crate::text::escape;

/// The time for a program that is started here to serve its socket.
const START_TIMEOUT: Duration = Duration::from_secs(10);
/// The time between the end of a program's sockets and that of its process.
const EXIT_TIMEOUT: Duration = Duration::from_millis(500);

/// A connection to a program, and its process.
pub struct Program {
    /// The connection.
    pub client: Client,
    /// The process.
    pub process: Process,
}

/// A process that can be asked. If it was started here, it ends with this value.
pub struct Process {
    /// Its id, as it is known here.
    pub pid: u32,
    /// Another process may get its id later.
    start_time: Option<u64>,
    child: Option<ChildProgram>,
    /// The agent that was injected for this command, which ends after the connection.
    injected: Option<InjectedAgent>,
}

impl Program {
    /// Connects to a process.
    ///
    /// # Errors
    /// If it can't be asked.
    pub fn connect(pid: u32) -> Result<Self, Failure> {
        let process = Process::new(pid);
        Ok(Self { client: connect(pid)?, process })
    }

    /// Connects to a process. If it has no agent, one is injected. It ends with this value unless
    /// others use it by then.
    ///
    /// # Errors
    /// If it can't be asked.
    pub fn connect_or_inject(pid: u32) -> Result<Self, Failure> {
        let process = Process::new(pid);
        let no_agent = match connect(pid) {
            Err(error @ ClientError::NoAgent { .. }) => error,
            client => return Ok(Self { client: client?, process }),
        };
        let how = inject(pid, None, false, false).map_err(|why| match why {
            Failure::Input(why) => Failure::Input(format!("{why}\n{no_agent}")),
            other => other,
        })?;
        print_note(&format!("process {pid} had no agent: {how}"));
        let injected = InjectedAgent::new(pid, process.start_time);
        let mut program = Self::connect(pid)?;
        program.process.injected = Some(injected);
        Ok(program)
    }

    /// Ends the agent. Returns notes.
    ///
    /// # Errors
    /// If it can't be ended.
    pub fn end_agent(self) -> Result<Vec<String>, Failure> {
        let pid = self.process.pid;
        let _progress = waiting_for_exit(pid);
        let notes = self.client.shut_down(false)?;
        if !wait_agent_exit(pid) {
            return Err(Failure::Input(format!(
                "process {pid}: all sites are latent, and the agent's threads get no time to end; it ends \
                 later"
            )));
        }
        Ok(notes)
    }

    /// Connects to the only process of this name that serves a socket.
    ///
    /// # Errors
    /// If there is none, or several, which are listed.
    pub fn connect_by_name(name: &str) -> Result<Self, Failure> {
        let lines = |of: &mut dyn Iterator<Item = &AgentSocket>| {
            of.map(|socket| command_line(socket.pid)).collect::<Vec<_>>().join("\n")
        };
        let all = sockets();
        let named: Vec<&AgentSocket> = all.iter().filter(|socket| has_name(socket.pid, name)).collect();
        let name = escape(name);
        match named[..] {
            [one] => Self::connect(one.pid),
            [] => {
                let others = lines(&mut all.iter().take(5));
                let others =
                    if others.is_empty() { others } else { format!("; these can be asked:\n{others}") };
                Err(Failure::Input(format!(
                    "no process called `{name}` can be asked; start it with PROBE_AGENT=1, and the feature \
                     `agent`, or by `probectl run`, or name one that runs by `-p PID`{others}"
                )))
            }
            _ => Err(Failure::Usage(format!(
                "{} processes are called `{name}`; choose one by `-p PID`:\n{}",
                named.len(),
                lines(&mut named.iter().copied())
            ))),
        }
    }

    /// Starts a program with its agent, and connects to it. If the program has no agent of its own,
    /// the preloaded library brings one. Of a script, the first program with an agent is asked. The
    /// program ends with this value, unless it is waited for, and by a second signal.
    ///
    /// # Errors
    /// If it can't be started, or serves no socket. It is ended then.
    pub fn start(command: &[String], stop: &Stop) -> Result<Self, Failure> {
        Self::start_with(command, stop, |_| ())
    }

    /// Starts a program without input and output, and connects to it.
    ///
    /// # Errors
    /// As those of [`start`](Self::start).
    pub fn start_detached(command: &[String], stop: &Stop) -> Result<Self, Failure> {
        Self::start_with(command, stop, |command| {
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        })
    }

    fn start_with(command: &[String], stop: &Stop, set: impl FnOnce(&mut Command)) -> Result<Self, Failure> {
        let Some((program, arguments)) = command.split_first() else {
            return Err(Failure::Usage("a command is missing after `--`".to_owned()));
        };
        let mut command = Command::new(program);
        set(command.args(arguments).env("PROBE_AGENT", "1"));
        let without = preload(program, &mut command);
        let mut child = ChildProgram::new(&mut command)
            .map_err(|error| Failure::Input(format!("{program} can't be started: {error}")))?;
        let handle = child.kill_handle();
        stop.before_exit(move || handle.kill());
        let _progress = Progress::start(&format!("waiting for the agent of {program}"), 0);
        let begin = Instant::now();
        loop {
            let pid = process_to_ask(&child);
            match Client::connect(pid) {
                Ok(client) => {
                    child.adopt(pid);
                    return Ok(Self { client, process: Process { child: Some(child), ..Process::new(pid) } });
                }
                // It may be about to end.
                Err(ClientError::NoAgent { .. } | ClientError::NoProcess(_) | ClientError::Ended) => (),
                Err(error) => return Err(error.into()),
            }
            if let Some(status) = child.exit_status() {
                let why = orphans_note(&child).unwrap_or_else(|| format!("; {without}"));
                return Err(Failure::Input(format!(
                    "{program} has ended ({status}) before it could be asked{why}"
                )));
            }
            if begin.elapsed() > START_TIMEOUT {
                return Err(Failure::Input(format!(
                    "{program} serves no socket, so it was ended; {without}"
                )));
            }
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Ends the connection, and waits for the program's end if it was started here. Returns notes
    /// on that.
    pub fn finish(self, watched: WatchEnd) -> Vec<String> {
        let Self { client, process } = self;
        drop(client);
        process.finish(watched)
    }

    /// Returns the program that was started here, if it was. It ends with its owner.
    pub fn take_child(&mut self) -> Option<ChildProgram> {
        self.process.child.take()
    }

    /// Says why the connection has ended: with the program, as a rule.
    pub fn end_reason(&self) -> String {
        self.process.end_reason()
    }

    /// Says why the program gives no answer.
    pub fn failure(&self, error: ClientError) -> Failure {
        match error {
            ClientError::Ended => Failure::Input(self.end_reason()),
            error => error.into(),
        }
    }

    /// Returns whether the program was started here.
    pub fn is_child(&self) -> bool {
        self.process.child.is_some()
    }
}

impl Process {
    fn new(pid: u32) -> Self {
        Self { pid, start_time: start_time(pid), child: None, injected: None }
    }

    /// Waits for its end if it was started here. Returns notes on a failure, and on processes that
    /// it has left running; [`end_reason`](Self::end_reason) has named these after a disconnection.
    pub fn finish(mut self, watched: WatchEnd) -> Vec<String> {
        let Some(mut child) = self.child.take() else { return Vec::new() };
        let failure = child.wait().and_then(failure_note);
        let left = (watched == WatchEnd::Stopped).then(|| orphans_note(&child)).flatten();
        failure.into_iter().chain(left.map(|left| format!("the program has ended{left}"))).collect()
    }

    /// Says why the connection has ended: with the program, as a rule.
    pub fn end_reason(&self) -> String {
        if self.wait_exit() {
            self.exit_message()
        } else {
            "the program goes on, but has ended the connection".to_owned()
        }
    }

    /// Waits for a moment for its end, after that of its sockets, which it closes first. Returns
    /// whether it has ended.
    pub fn wait_exit(&self) -> bool {
        let begin = Instant::now();
        while self.is_running() {
            if begin.elapsed() > EXIT_TIMEOUT {
                return false;
            }
            thread::sleep(Duration::from_millis(2));
        }
        true
    }

    /// Says that it has ended, and which processes it has left running.
    pub fn exit_message(&self) -> String {
        let left = self.child.as_ref().and_then(orphans_note).unwrap_or_default();
        format!("the program has ended{left}")
    }

    /// Returns whether it runs at this moment. A later process with its id does not count.
    pub fn is_running(&self) -> bool {
        let is_it = |it: &Stat| self.start_time.is_none() || self.start_time == it.start_time();
        Stat::of(self.pid).is_some_and(|it| it.is_running() && is_it(&it))
    }

    /// Returns whether a signal or a debugger has stopped it, so that it answers nothing. Both stop
    /// all threads. `strace` stops one for a moment, while the agent's thread may continue.
    pub fn is_stopped(&self) -> bool {
        if !Stat::of(self.pid).is_some_and(|it| it.is_stopped()) {
            return false;
        }
        let Ok(threads) = fs::read_dir(format!("/proc/{}/task", self.pid)) else { return false };
        threads.flatten().all(|thread| Stat::read(&thread.path()).is_none_or(|it| it.is_stopped()))
    }
}

impl From<ClientError> for Failure {
    /// Says why a program gives no answer.
    fn from(error: ClientError) -> Self {
        match &error {
            ClientError::Failed(failure) if failure.kind == FailureKind::Malformed => {
                Self::Usage(error.to_string())
            }
            ClientError::Failed(failure) if failure.kind == FailureKind::NoMatch => {
                Self::NoMatch(error.to_string())
            }
            _ => Self::Input(error.to_string()),
        }
    }
}

/// Returns the agent's notes on an attachment.
pub fn attachment_notes(attached: &Attached) -> Vec<String> {
    attached.consumers.iter().flat_map(|consumer| consumer.notes.iter().cloned()).collect()
}

/// Returns an answer; `None` if the program has ended.
///
/// # Errors
/// If the program refuses, or gives no answer.
pub fn unless_ended<T>(answer: Result<T, ClientError>) -> Result<Option<T>, Failure> {
    match answer {
        Err(ClientError::Ended) => Ok(None),
        answer => Ok(Some(answer?)),
    }
}

/// Connects to a process, which may be busy or stopped.
///
/// # Errors
/// If it can't be asked.
pub fn connect(pid: u32) -> Result<Client, ClientError> {
    let _progress = Progress::start(&format!("waiting for an answer of process {pid}"), 0);
    Client::connect(pid)
}

/// Returns the start time of a process; `None` if there is no such process.
pub(super) fn start_time(pid: u32) -> Option<u64> {
    Stat::of(pid)?.start_time()
}

/// Preloads the library into a program without an agent of its own. Returns advice for a program
/// that serves no socket.
fn preload(program: &str, command: &mut Command) -> String {
    const OWN: &str = "does its `main` hold the guard of `init_from_env`, with the feature `agent`?";
    let Some(starting) = Starting::of(program.as_ref()) else { return OWN.to_owned() };
    match (starting.runtime, starting.obstacle) {
        (Some(_), _) => OWN.to_owned(),
        (None, Some(obstacle)) => format!("{} {obstacle}", starting.file.display()),
        (None, None) => match library(None) {
            Ok(library) => {
                Preload { library, only: false, plugins: false }.add_to(command);
                "does it have probes? `probectl list` shows those of a file".to_owned()
            }
            Err(error) => format!("without an agent of its own it needs a library, and {error}"),
        },
    }
}

/// Returns the process to ask: the started one, or a descendant of it that has an agent.
fn process_to_ask(child: &ChildProgram) -> u32 {
    let all: Vec<_> = sockets().into_iter().map(|it| it.pid).collect();
    if all.contains(&child.id()) {
        return child.id();
    }
    all.into_iter().find(|pid| child.is_descendant(*pid)).unwrap_or_else(|| child.id())
}

/// Says which processes a program that has ended has left running, if there are any.
fn orphans_note(child: &ChildProgram) -> Option<String> {
    match &child.orphans()[..] {
        [] => None,
        [one] => Some(format!(" (it left process {one} running; `-p {one}` asks it)")),
        several => {
            let all: Vec<_> = several.iter().map(u32::to_string).collect();
            Some(format!(" (it left processes {} running; `-p PID` asks one)", all.join(", ")))
        }
    }
}

/// Returns whether a running process has this name: that of its file, or the one that the kernel
/// shows.
fn has_name(pid: u32, name: &str) -> bool {
    let file = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    let is_file = file.file_name().is_some_and(|it| it == name) || file == Path::new(name);
    Stat::of(pid).is_some_and(|it| it.is_running() && (is_file || it.name == name))
}

/// Returns a line with a process's id and its command line.
fn command_line(pid: u32) -> String {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = bytes.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    let text: String = words.collect::<Vec<_>>().join(" ").trim_end().chars().take(100).collect();
    format!("  {pid}  {}", escape(&text))
}

#[cfg(test)]
mod tests {
    use probe_tests::folder::Folder;
    use probe_tests::{c_library, instrumented};

    use super::*;

    /// Its children would be those of the thread that is left.
    #[test]
    fn a_program_whose_first_thread_has_ended_runs() {
        const SOURCE: &str = "#include <pthread.h>\n#include <unistd.h>\n\
                              static void *waits(void *it) { for (;;) pause(); return it; }\n\
                              int main(void) { pthread_t it; pthread_create(&it, 0, waits, 0); pthread_exit(0); }\n";
        let folder = Folder::new("first-thread");
        let (source, out) = (folder.join("it.c"), folder.join("it"));
        fs::write(&source, SOURCE).unwrap();
        let said = c_library::run(instrumented::compilers()[0], &["-pthread"], &[&source], &out);
        assert!(said.is_done, "{}", said.messages);
        let mut child = Command::new(out).spawn().unwrap();
        let stat = format!("/proc/{}/stat", child.id());
        while !fs::read_to_string(&stat).unwrap().contains(") Z ") {
            thread::sleep(Duration::from_millis(1));
        }
        assert!(Stat::of(child.id()).unwrap().is_running());
        child.kill().unwrap();
        while Stat::of(child.id()).unwrap().is_running() {
            thread::sleep(Duration::from_millis(1));
        }
        child.wait().unwrap();
    }

    #[test]
    fn a_process_with_the_id_of_another_one_is_not_it() {
        let pid = std::process::id();
        let own = Stat::of(pid).unwrap();
        let is_running = |start_time| Process { start_time, ..Process::new(pid) }.is_running();
        assert_eq!([own.start_time(), None].map(is_running), [true, true]);
        assert!(own.is_running() && !is_running(own.start_time().map(|it| it + 1)));
        // A child that nobody has waited for.
        let mut child = Command::new("true").spawn().unwrap();
        while Stat::of(child.id()).is_some_and(|it| it.is_running()) {
            thread::sleep(Duration::from_millis(1));
        }
        assert!(Stat::of(child.id()).is_some_and(|it| it.start_time() >= own.start_time()));
        child.wait().unwrap();
    }
}
