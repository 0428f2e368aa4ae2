//! Competing processes, as on a busy machine.
//!
//! Each is in a session of its own. The scheduler then gives time slices to whole programs
//! (autogroup; a container's group has the same effect): the threads of one program run, and wait,
//! together.

use std::env;
use std::os::unix::process::parent_id;
use std::process::{Child, Command};

use super::made::compute;
use super::watched;

/// The number of competing processes.
const RIVALS: &str = "PROBE_BENCH_RIVALS";
/// The mode of such a process, in place of a consumer.
pub const RIVAL: &str = "rival";

/// Ends the processes when dropped.
pub struct Rivals(Vec<Child>);

impl Rivals {
    /// Starts as many processes as the variable says; none if it is not set.
    pub fn start() -> Self {
        let number = env::var(RIVALS).map_or(0, |it| it.parse().expect("a number"));
        let this = env::current_exe().expect("a program knows its path");
        let start = |_| {
            let mut command = Command::new("setsid");
            command.arg(&this).env(watched::VARIABLE, RIVAL).spawn().expect("util-linux has it")
        };
        Self((0..number).map(start).collect())
    }
}

impl Drop for Rivals {
    fn drop(&mut self) {
        for rival in &mut self.0 {
            // Both fail if the process has ended already.
            let _ = rival.kill();
            let _ = rival.wait();
        }
    }
}

/// Computes until the bench has ended, for whatever reason.
pub fn compete() {
    let bench = parent_id();
    while parent_id() == bench {
        compute(1_000_000);
    }
}
