//! A program that was started here: its only owner decides on its end.
//!
//! Life cycle: started ▸ the process that serves the socket is known, which is a descendant if a
//! script was started ▸ waited for, or ended with the owner, or by a second signal
//! ([`KillHandle`]).
//!
//! Processes are held by descriptors: none that has got the same id later is ended. Kernels before
//! 5.3 have no such descriptors; there, only the started process is ended, and only by its owner.

use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{fs, io, iter, process};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// The program.
pub struct ChildProgram {
    child: Child,
    kill: KillHandle,
}

/// The variable by which the program's processes are known, wherever they are: it has the id of
/// this process.
const MARK_VARIABLE: &str = "PROBECTL_PID";

/// Ends the program's processes, from any thread.
#[derive(Clone, Default)]
pub struct KillHandle(Arc<Mutex<Vec<OwnedFd>>>);

impl ChildProgram {
    /// Starts a program.
    ///
    /// # Errors
    /// The system's.
    pub fn new(command: &mut Command) -> io::Result<Self> {
        let child = command.env(MARK_VARIABLE, process::id().to_string()).spawn()?;
        let kill = KillHandle::default();
        // Nobody has waited for it, so that the id is its own.
        kill.add(child.id());
        Ok(Self { child, kill })
    }

    /// Returns the id of the started process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the means to end the program from elsewhere.
    pub fn kill_handle(&self) -> KillHandle {
        self.kill.clone()
    }

    /// Takes a process as one of the program's, if it is a descendant of the started one.
    pub fn adopt(&self, pid: u32) {
        self.kill.add_if(pid, |pid| self.is_descendant(pid));
    }

    /// Returns whether a process is a descendant of the started one.
    pub fn is_descendant(&self, pid: u32) -> bool {
        iter::successors(parent(pid), |pid| parent(*pid)).any(|pid| pid == self.id())
    }

    /// Returns the processes that the program has left running: those with its environment which
    /// are not below it. One that has overwritten its environment is not known; one that has ended
    /// has none.
    pub fn orphans(&self) -> Vec<u32> {
        let mark = format!("{MARK_VARIABLE}={}", process::id());
        let is_left = |pid: u32| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|it| it == mark.as_bytes())
                && pid != self.id()
                && !self.is_descendant(pid)
        };
        let all = fs::read_dir("/proc").into_iter().flatten().flatten();
        let mut left: Vec<_> = all.filter_map(|it| it.file_name().to_str()?.parse().ok()).collect();
        left.retain(|pid| is_left(*pid));
        left.sort_unstable();
        left
    }

    /// Returns how the started process has ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Waits for the end of the started process. A process that it has started in turn may go on.
    pub fn wait(mut self) -> Option<ExitStatus> {
        let status = self.child.wait().ok();
        self.kill.processes().clear();
        status
    }
}

impl Drop for ChildProgram {
    fn drop(&mut self) {
        self.kill.kill();
        // For a kernel without descriptors. It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl KillHandle {
    fn add(&self, pid: u32) {
        self.add_if(pid, |_| true);
    }

    fn add_if(&self, pid: u32, is_it: impl FnOnce(u32) -> bool) {
        let of = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let opened = of.and_then(|it| pidfd_open(it, PidfdFlags::empty()).ok());
        // Asked once the descriptor holds the process: its id can't pass to another one before.
        self.processes().extend(opened.filter(|_| is_it(pid)));
    }

    /// Ends them at once. Those that have ended already are left alone.
    pub fn kill(&self) {
        // The script first: it would go on with its next line.
        for process in self.processes().iter() {
            let _ = pidfd_send_signal(process, Signal::KILL);
        }
    }

    fn processes(&self) -> MutexGuard<'_, Vec<OwnedFd>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn parent(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok().filter(|pid| *pid != 0)
}
