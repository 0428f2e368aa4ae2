//! An agent that was brought to a program for one command, and goes with it.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use probe_protocol::Client;

use super::program::began;
use crate::progress::Progress;

/// The time for an agent's threads to end.
const GOING: Duration = Duration::from_secs(5);

/// The time for other clients' connections to end.
const OTHERS: Duration = Duration::from_millis(500);
/// The time between two looks.
const LOOK: Duration = Duration::from_millis(1);

/// The agent. Dropping this ends it, and waits for that, unless another client or a kept attachment
/// uses it, or somebody has said that it stays. It ends by itself, too, if this is never dropped.
#[derive(Debug)]
pub struct Brought {
    pid: u32,
    /// When the process began, by the kernel's clock. Another process may get its id later.
    began: Option<u64>,
}

impl Brought {
    /// Takes the agent of a process.
    pub fn new(pid: u32, began: Option<u64>) -> Self {
        Self { pid, began }
    }
}

impl Drop for Brought {
    fn drop(&mut self) {
        let what = format!("waiting for the end of the agent of process {}", self.pid);
        let _progress = Progress::start(&what, 0);
        let begun = Instant::now();
        // The program may have ended, and another client may have taken the agent away.
        while began(self.pid) == self.began
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
            if begun.elapsed() > OTHERS {
                return;
            }
            thread::sleep(LOOK);
        }
        if began(self.pid) == self.began {
            // If they get no time, they end later.
            gone(self.pid);
        }
    }
}

/// Waits until the threads of an agent have ended. Returns whether they have.
pub fn gone(pid: u32) -> bool {
    let begun = Instant::now();
    let is_there = || {
        let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        let mut names = threads.filter_map(|it| fs::read_to_string(it.path().join("comm")).ok());
        names.any(|name| ["probe-agent", "probe-client"].contains(&name.trim_end()))
    };
    while is_there() {
        if begun.elapsed() > GOING {
            return false;
        }
        thread::sleep(LOOK);
    }
    true
}
