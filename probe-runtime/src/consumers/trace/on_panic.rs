//! Snapshots when a thread panics, from the process's panic hook.
//!
//! Life: the first trace that asks for it puts a hook before the program's present one, which then
//! runs as before ▸ each panic writes a snapshot of each such trace that is still attached ▸
//! without one, the hook does nothing but call the program's. It stays: a hook that was put on top
//! of it may call it.
//!
//! The standard library calls hooks before it unwinds or aborts, so this works with
//! `panic = "abort"`, too. The panicking thread may hold any lock of the program or of this crate;
//! a snapshot takes none but the list of traces, and waits for that one not for ever.

use std::io;
use std::panic;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, Once, TryLockError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use super::name::Name;
use super::running::Running;
use super::{file, snapshot};
use crate::engine::error::Error;
use crate::engine::os;
use crate::engine::os::fork;

/// A trace that wants snapshots.
pub(super) struct OnPanic {
    name: Name,
    running: Weak<Running>,
    process: u64,
}

static ALL: Mutex<Vec<Weak<OnPanic>>> = Mutex::new(Vec::new());

/// The longest wait for another thread that panics, too.
const PATIENCE: Duration = Duration::from_secs(10);

impl OnPanic {
    /// Writes snapshots to this file from now on, until the last share is dropped.
    ///
    /// # Errors
    /// If the path can't be used, if this thread panics, or if other threads write snapshots of
    /// panics for too long.
    pub(super) fn new(path: &Path, running: &Arc<Running>) -> Result<Arc<Self>, Error> {
        static HOOK: Once = Once::new();
        let name = Name::new(path).map_err(|error| file::at(path, &error))?;
        if thread::panicking() {
            let problem = io::Error::other("a thread that panics can't put a panic hook in place");
            return Err(file::at(path, &problem));
        }
        HOOK.call_once(|| {
            let before = panic::take_hook();
            panic::set_hook(Box::new(move |info| {
                if let Err(problem) = write_all(PATIENCE) {
                    os::stderr::say(&format!("PROBES: a panic has no snapshot: {problem}"));
                }
                before(info);
            }));
        });
        let process = fork::process();
        let new = Arc::new(Self { name, running: Arc::downgrade(running), process });
        remember(Arc::downgrade(&new), PATIENCE).map_err(|error| file::at(path, &error))?;
        Ok(new)
    }

    fn write(&self) {
        let Some(running) = self.running.upgrade() else { return };
        let path = self.name.path(std::process::id(), self.process != fork::process());
        if let Err(error) = snapshot::to_file(&running, &path) {
            os::stderr::say(&file::problem(&path, &error));
        }
    }
}

fn remember(new: Weak<OnPanic>, patience: Duration) -> io::Result<()> {
    let mut all = lock(patience)?;
    all.retain(|it| it.strong_count() != 0);
    all.push(new);
    Ok(())
}

/// Writes a snapshot of each trace. Threads that panic at the same time take turns, so that none
/// aborts the process while another one writes.
///
/// # Errors
/// If the list can't be locked. A snapshot that can't be written is told on stderr.
fn write_all(patience: Duration) -> io::Result<()> {
    lock(patience)?.iter().filter_map(Weak::upgrade).for_each(|it| it.write());
    Ok(())
}

/// Locks the list.
///
/// # Errors
/// If that takes too long. In a forked child, another thread of its parent may have left it locked.
fn lock(patience: Duration) -> io::Result<MutexGuard<'static, Vec<Weak<OnPanic>>>> {
    let began = Instant::now();
    loop {
        match ALL.try_lock() {
            Ok(all) => return Ok(all),
            Err(TryLockError::Poisoned(all)) => return Ok(all.into_inner()),
            Err(TryLockError::WouldBlock) if began.elapsed() >= patience => {
                let problem = "another thread writes snapshots of a panic all along, or did when this \
                               process was forked";
                return Err(io::Error::new(io::ErrorKind::TimedOut, problem));
            }
            Err(TryLockError::WouldBlock) => thread::sleep(Duration::from_millis(1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_stays_locked_is_an_error() {
        let all = lock(PATIENCE).unwrap();
        let problem =
            "another thread writes snapshots of a panic all along, or did when this process was forked";
        assert_eq!(remember(Weak::new(), Duration::ZERO).unwrap_err().to_string(), problem);
        assert_eq!(write_all(Duration::ZERO).unwrap_err().to_string(), problem);
        drop(all);
        remember(Weak::new(), PATIENCE).unwrap();
        write_all(PATIENCE).unwrap();
    }
}
