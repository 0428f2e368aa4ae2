//! A program that was started here: its only owner decides on its end.
//!
//! Life cycle: started ▸ the process that serves the socket is known, which is a descendant if a
//! script was started ▸ waited for, or killed with the owner, or by a second signal
//! ([`KillHandle`]).
//!
//! Processes are held by descriptors, so no later process with the same id is killed. Kernels
//! before 5.3 have no such descriptors. There, only the started process is killed, and only by its
//! owner.

use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{fs, io, iter, process};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::proc_files::Stat;

/// The variable in the environment of all of the program's processes. It has the id of this
/// process.
const MARK_VARIABLE: &str = "PROBECTL_PID";

/// The program.
pub struct ChildProgram {
    child: Child,
    processes: KillHandle,
}

/// Kills the program's processes, from any thread.
#[derive(Clone, Default)]
pub struct KillHandle(Arc<Mutex<Vec<OwnedFd>>>);

impl ChildProgram {
    /// Starts a program.
    ///
    /// # Errors
    /// The system's.
    pub fn new(command: &mut Command) -> io::Result<Self> {
        let child = command.env(MARK_VARIABLE, process::id().to_string()).spawn()?;
        let processes = KillHandle::default();
        // The id is still that of the child, since nobody has waited for it.
        processes.add_if(child.id(), |_| true);
        Ok(Self { child, processes })
    }

    /// Returns the id of the started process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns a handle that kills the program from elsewhere.
    pub fn kill_handle(&self) -> KillHandle {
        self.processes.clone()
    }

    /// Adds a process to those that are killed, if it is a descendant of the started one.
    pub fn adopt(&self, pid: u32) {
        self.processes.add_if(pid, |pid| self.is_descendant(pid));
    }

    /// Returns whether a process is a descendant of the started one.
    pub fn is_descendant(&self, pid: u32) -> bool {
        iter::successors(parent(pid), |pid| parent(*pid)).any(|pid| pid == self.id())
    }

    /// Returns the processes that the program has left running: those with its environment that are
    /// not below it. A process that has overwritten its environment is missed, and one that has
    /// ended has none.
    pub fn orphans(&self) -> Vec<u32> {
        let mark = format!("{MARK_VARIABLE}={}", process::id());
        let is_orphan = |pid: &u32| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|it| it == mark.as_bytes())
                && *pid != self.id()
                && !self.is_descendant(*pid)
        };
        let all = fs::read_dir("/proc").into_iter().flatten().flatten();
        let all = all.filter_map(|it| it.file_name().to_str()?.parse().ok());
        let mut orphans: Vec<_> = all.filter(is_orphan).collect();
        orphans.sort_unstable();
        orphans
    }

    /// Returns how the started process has ended, if it has.
    pub fn exit_status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Waits for the end of the started process. The processes that it has started may continue.
    pub fn wait(&mut self) -> Option<ExitStatus> {
        let status = self.child.wait().ok();
        self.processes.lock().clear();
        status
    }
}

impl Drop for ChildProgram {
    fn drop(&mut self) {
        self.processes.kill();
        // For a kernel without descriptors. The child may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl KillHandle {
    fn add_if(&self, pid: u32, is_it: impl FnOnce(u32) -> bool) {
        let of = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let opened = of.and_then(|it| pidfd_open(it, PidfdFlags::empty()).ok());
        // Asked while the descriptor holds the process, whose id can't pass to another one then.
        self.lock().extend(opened.filter(|_| is_it(pid)));
    }

    /// Kills the processes at once. Those that have ended already are left alone.
    pub fn kill(&self) {
        // The script comes first: it would continue with its next line.
        for process in self.lock().iter() {
            let _ = pidfd_send_signal(process, Signal::KILL);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<OwnedFd>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Says that a program has failed, if it has.
pub fn failure_note(status: ExitStatus) -> Option<String> {
    (!status.success()).then(|| format!("the program has failed: {status}"))
}

fn parent(pid: u32) -> Option<u32> {
    Stat::of(pid)?.parent().filter(|pid| *pid != 0)
}
