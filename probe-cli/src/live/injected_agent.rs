//! An agent that was injected into a program for one command, and ends with the command.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use probe_protocol::Client;

use super::program::start_time;
use crate::progress::Progress;

/// The time for an agent's threads to end.
const AGENT_EXIT_TIMEOUT: Duration = Duration::from_secs(5);
/// The time for other clients' connections to end.
const OTHER_CLIENTS_TIMEOUT: Duration = Duration::from_millis(500);
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// The agent. Dropping this ends the agent and waits for its end, unless another client or a kept
/// attachment uses it, or a client has asked it to stay. If this is never dropped, the agent ends
/// with its last client.
#[derive(Debug)]
pub struct InjectedAgent {
    pid: u32,
    start_time: Option<u64>,
}

impl InjectedAgent {
    /// Takes the agent of a process with this start time.
    pub fn new(pid: u32, start_time: Option<u64>) -> Self {
        Self { pid, start_time }
    }
}

impl Drop for InjectedAgent {
    fn drop(&mut self) {
        let _progress = waiting_for_exit(self.pid);
        let begun = Instant::now();
        // The program may have ended, and another client may have ended the agent.
        while start_time(self.pid) == self.start_time
            && let Ok(mut client) = Client::connect(self.pid)
        {
            let is_kept = client.status().map_or(true, |it| it.attachments.iter().any(|it| it.is_kept));
            if is_kept {
                return;
            }
            if client.shut_down(true).is_ok() {
                break;
            }
            // The connection before this one may be about to end.
            if begun.elapsed() > OTHER_CLIENTS_TIMEOUT {
                return;
            }
            thread::sleep(POLL_INTERVAL);
        }
        if start_time(self.pid) == self.start_time {
            // Threads that get no processor in time end later.
            wait_agent_exit(self.pid);
        }
    }
}

/// Shows that the end of a process's agent is waited for.
pub fn waiting_for_exit(pid: u32) -> Progress {
    Progress::start(&format!("waiting for the end of the agent of process {pid}"), 0)
}

/// Waits until the threads of an agent have ended. Returns whether they have.
pub fn wait_agent_exit(pid: u32) -> bool {
    let begun = Instant::now();
    let is_there = || {
        let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        let mut names = threads.filter_map(|it| fs::read_to_string(it.path().join("comm")).ok());
        names.any(|name| ["probe-agent", "probe-client"].contains(&name.trim_end()))
    };
    while is_there() {
        if begun.elapsed() > AGENT_EXIT_TIMEOUT {
            return false;
        }
        thread::sleep(POLL_INTERVAL);
    }
    true
}
