//! One caller at a time: two would use the same memory in the process, and load a library twice.
//!
//! The lock is an exclusive one (`flock`) on the process's file of memory, `/proc/PID/mem`. Life
//! cycle: open ▸ lock ▸ compare with the file that others find there ▸ close.
//!
//! It rests on these rules of the kernel:
//! - The file opens only for a process that may trace this one (`PTRACE_MODE_ATTACH`), and nobody
//!   makes or replaces files in `/proc`. So another user can't take the lock or block it.
//! - While somebody has the file open, all callers with the same `/proc` get the same inode, and a
//!   lock belongs to an inode.
//! - A lock ends with its last descriptor, however its process ends. Descriptors close on `exec`.
//!
//! Two other locks would not do. Tracing a thread all the time excludes others, too, but each
//! signal would wait for the caller, and no debugger could come. A pidfd has one inode in all
//! namespaces, but any user may open and lock it.
//!
//! Network and mount namespaces make no difference. Since Linux 5.8, each mount of `/proc` has its
//! own inodes: a caller in a container that has mounted one and a caller outside don't see each
//! other. Opening a file in the process's own `/proc` would change that, but it could be any file.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock, major, minor};
use rustix::io::Errno;

use crate::error::InjectError;
use crate::process::{TaskStatus, check_access};

/// The time between two attempts.
const RETRY_INTERVAL: Duration = Duration::from_millis(2);

/// The right to call something in a process.
#[derive(Debug)]
pub struct CallLock {
    _file: File,
}

impl CallLock {
    /// Takes the lock, and waits for other callers to release it.
    pub fn acquire(pid: u32, timeout: Duration) -> Result<Self, InjectError> {
        let begun = Instant::now();
        let path = format!("/proc/{pid}/mem");
        let system = |error| InjectError::System { pid, step: "its turn can't be taken", error };
        loop {
            // `check_access` knows better why it can't be opened.
            let file = File::open(&path)
                .map_err(|error| check_access(pid).err().unwrap_or_else(|| system(error)))?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) if is_at(&file, &path) => return Ok(Self { _file: file }),
                Err(error) if error != Errno::WOULDBLOCK => return Err(system(error.into())),
                // Somebody has the lock, or another process has got the id meanwhile.
                _ if begun.elapsed() > timeout => {
                    let holder = holder(&file);
                    let name = |it| TaskStatus::of(it).unwrap_or_default().name;
                    return Err(InjectError::Busy { pid, holder: holder.map(|it| (it, name(it))) });
                }
                _ => thread::sleep(RETRY_INTERVAL),
            }
        }
    }
}

/// Returns the process that has locked a file, if the system tells.
fn holder(file: &File) -> Option<u32> {
    let metadata = file.metadata().ok()?;
    let (major, minor) = (major(metadata.dev()), minor(metadata.dev()));
    // The list may change between two reads, so as much as possible is read at once.
    let mut locks = String::with_capacity(1 << 16);
    File::open("/proc/locks").ok()?.read_to_string(&mut locks).ok()?;
    find_holder(&locks, &format!("{major:02x}:{minor:02x}:{}", metadata.ino()))
}

/// Finds the holder in the system's list of locks, by the file's key there.
fn find_holder(locks: &str, key: &str) -> Option<u32> {
    locks.lines().find_map(|line| match line.split_whitespace().collect::<Vec<_>>()[..] {
        // A line with an arrow is of a process that waits.
        [_, "FLOCK", _, _, pid, file, ..] if file == key => pid.parse().ok(),
        _ => None,
    })
}

/// Returns whether a path still leads to this file.
fn is_at(file: &File, path: &str) -> bool {
    let key = |it: fs::Metadata| (it.dev(), it.ino());
    let found = fs::metadata(path).map(key).ok();
    found.is_some() && found == file.metadata().map(key).ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::{Child, Command, Stdio};

    use super::*;

    const AT_ONCE: Duration = Duration::from_millis(10);
    const TIMEOUT: Duration = Duration::from_secs(100);

    /// Starts a program that waits for its input. Prints a line and returns `None` if nobody may
    /// trace here.
    fn start_reader() -> Option<Child> {
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        if let Err(error @ InjectError::NotAllowed { .. }) = CallLock::acquire(child.id(), AT_ONCE) {
            println!("left out: {error}");
            end(&mut child);
            return None;
        }
        Some(child)
    }

    fn end(child: &mut Child) {
        child.kill().unwrap();
        child.wait().unwrap();
    }

    fn is_busy(pid: u32) -> bool {
        match CallLock::acquire(pid, AT_ONCE) {
            Ok(_) => false,
            Err(InjectError::Busy { pid: of, .. }) if of == pid => true,
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn one_caller_has_the_lock() {
        let (Some(mut one), Some(mut other)) = (start_reader(), start_reader()) else { return };
        let lock = CallLock::acquire(one.id(), AT_ONCE).unwrap();
        assert_eq!([one.id(), other.id()].map(is_busy), [true, false]);
        thread::scope(|scope| {
            let waits = scope.spawn(|| CallLock::acquire(one.id(), TIMEOUT).map(drop));
            drop(lock);
            waits.join().unwrap().unwrap();
        });
        assert!(!is_busy(one.id()));
        end(&mut one);
        end(&mut other);
        assert!(matches!(CallLock::acquire(0, AT_ONCE), Err(InjectError::NoProcess(0))));
        assert!(matches!(CallLock::acquire(u32::MAX, AT_ONCE), Err(InjectError::NoProcess(u32::MAX))));
    }

    #[test]
    fn an_error_names_the_holder() {
        let locks = "1: POSIX  ADVISORY  WRITE 5 00:15:77 0 EOF\n2: FLOCK  ADVISORY  WRITE 6 00:16:77 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 7 00:15:77 0 EOF\n3: -> FLOCK  ADVISORY  WRITE 8 00:15:77 0 EOF\n";
        assert_eq!([find_holder(locks, "00:15:77"), find_holder(locks, "00:15:78")], [Some(7), None]);
        let Some(mut one) = start_reader() else { return };
        let _lock = CallLock::acquire(one.id(), AT_ONCE).unwrap();
        let (own, begun) = (std::process::id(), Instant::now());
        let name = TaskStatus::of(own).unwrap().name;
        let said = |who| {
            format!(
                "{who} attaches to process {}, or counts there from outside; try again when it has ended",
                one.id()
            )
        };
        let known = said(format!("process {own} ({name})"));
        let unknown = said("another process".to_owned());
        // The list changes while it is read, if others lock and unlock files.
        loop {
            let error = CallLock::acquire(one.id(), AT_ONCE).unwrap_err().to_string();
            if error == known {
                break;
            }
            assert!(error == unknown && begun.elapsed() < TIMEOUT, "{error}");
        }
        end(&mut one);
    }

    /// Starts a shell in other namespaces that takes the lock; `None` if they need more rights.
    fn start_holder(pid: u32, tool: &[&str]) -> Option<Child> {
        let is_allowed = Command::new(tool[0]).args(&tool[1..]).arg("true").stderr(Stdio::null()).status();
        if !is_allowed.is_ok_and(|it| it.success()) {
            println!("left out: {tool:?} needs more rights, or is missing");
            return None;
        }
        let script = format!("exec 3</proc/{pid}/mem && flock -x 3 && exec cat");
        let mut command = Command::new(tool[0]);
        command.args(&tool[1..]).args(["sh", "-c", &script]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let begun = Instant::now();
        while !is_busy(pid) {
            assert!(child.try_wait().unwrap().is_none() && begun.elapsed() < TIMEOUT, "{tool:?}");
        }
        Some(child)
    }

    #[test]
    fn a_killed_caller_has_no_lock_wherever_it_was() {
        let Some(mut process) = start_reader() else { return };
        let tools = [&["env"][..], &["unshare", "--mount"], &["unshare", "--net"]];
        for mut holder in tools.iter().filter_map(|it| start_holder(process.id(), it)) {
            end(&mut holder);
            CallLock::acquire(process.id(), TIMEOUT).unwrap();
        }
        end(&mut process);
    }

    /// Another user can't even open the file.
    #[test]
    fn another_user_can_not_take_the_lock() {
        let Some(mut process) = start_reader() else { return };
        let path = format!("/proc/{}/mem", process.id());
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("exec 3<{path}")]).stderr(Stdio::piped()).uid(65534).gid(65534);
        match shell.output() {
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stderr);
                assert!(!output.status.success() && said.contains("ermission denied"), "{said}");
            }
            Err(error) => println!("left out: only root has another user: {error}"),
        }
        end(&mut process);
    }

    /// The file of a process that has ended is nobody's.
    #[test]
    fn the_file_of_an_earlier_process_is_no_lock() {
        let (Some(mut one), Some(mut other)) = (start_reader(), start_reader()) else { return };
        let [path, path_of_other] = [&one, &other].map(|it| format!("/proc/{}/mem", it.id()));
        let file = File::open(&path).unwrap();
        assert_eq!([&path, &path_of_other].map(|path| is_at(&file, path)), [true, false]);
        end(&mut one);
        assert!(!is_at(&file, &path));
        end(&mut other);
    }
}
