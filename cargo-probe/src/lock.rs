//! Keeps `Cargo.lock` away from workspaces that have none.
//!
//! Cargo writes one wherever it builds. It stays beside the build, and is there while cargo runs.
//! A process of its own takes it away should this program be killed.
//!
//! Several commands may run in a workspace, the last of which takes the file away. Each holds a
//! shared lock on the workspace's folder, which tells the others that the file is not the user's.
//! The lock on `Cargo.toml` lets one command at a time bring the file or take it away.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use std::{fs, thread};

use probe_cli::output::Failure;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::{flag, low_level};
use tempfile::NamedTempFile;

/// The last line that a keeper is told, if there is nothing to do for it.
const DONE: &str = "done\n";

/// Takes the file away when it is dropped.
#[derive(Debug)]
pub struct LockFile {
    /// `None` if the user has one.
    absent: Option<Absent>,
}

#[derive(Debug)]
struct Absent {
    /// The file, and where it is kept.
    places: [PathBuf; 2],
    /// The workspace's folder, with a lock on it.
    folder: OwnedFd,
    keeper: Child,
}

impl LockFile {
    /// Brings the file that was kept, if the workspace has none. `keeper` is the program that runs
    /// [`keep`].
    ///
    /// # Errors
    /// The keeper can't be started, or the workspace can't be read.
    pub fn absent(workspace: &Path, kept: &Path, keeper: &Path) -> io::Result<Self> {
        let places = [workspace, kept].map(|folder| folder.join("Cargo.lock"));
        let _alone = alone(workspace);
        let folder = OwnedFd::from(File::open(workspace)?);
        if is_last(&folder) && places[0].exists() {
            return Ok(Self { absent: None });
        }
        // Systems that have no locks may leave the file to one of two commands.
        let _ = flock(&folder, FlockOperation::LockShared);
        // In a group of its own it outlives what ends this one.
        let mut keeper = Command::new(keeper);
        keeper.args(&places).process_group(0).stdin(Stdio::piped());
        // It holds the lock, too.
        let keeper = keeper.stdout(folder.try_clone()?).stderr(Stdio::null()).spawn()?;
        if !places[0].exists() {
            // The first time there is none to bring.
            let _ = moved_in(&places[1], &places[0]);
        }
        Ok(Self { absent: Some(Absent { places, folder, keeper }) })
    }

    fn tell(&mut self, line: &str) {
        if let Some(input) = self.absent.as_mut().and_then(|it| it.keeper.stdin.as_mut()) {
            // Without a keeper, this program still takes the file away.
            let _ = input.write_all(line.as_bytes());
        }
    }
}

impl Drop for LockFile {
    fn drop(&mut self) {
        if let Some(absent) = &self.absent {
            take_away(&absent.places, &absent.folder);
        }
        self.tell(DONE);
        if let Some(absent) = &mut self.absent {
            absent.keeper.stdin = None;
            let _ = absent.keeper.wait();
        }
    }
}

/// Waits until no other command brings the file or takes it away, as long as the result lives.
fn alone(workspace: &Path) -> Option<File> {
    let file = File::open(workspace.join("Cargo.toml")).ok()?;
    flock(&file, FlockOperation::LockExclusive).ok().map(|()| file)
}

/// Returns whether no other command holds the lock on the workspace's folder. This one may not hold
/// it any more.
fn is_last(folder: impl AsFd) -> bool {
    !matches!(flock(folder, FlockOperation::NonBlockingLockExclusive), Err(Errno::WOULDBLOCK))
}

/// Copies a file to where it is whole, or not there.
fn moved_in(from: &Path, to: &Path) -> io::Result<()> {
    let new = NamedTempFile::new_in(to.parent().unwrap_or(to))?;
    fs::copy(from, new.path())?;
    new.persist(to)?;
    Ok(())
}

/// Takes the file away, unless another command needs it.
fn take_away([file, kept]: &[impl AsRef<Path>; 2], folder: impl AsFd) {
    let (file, kept) = (file.as_ref(), kept.as_ref());
    let _alone = file.parent().and_then(alone);
    if is_last(folder) && file.exists() {
        // Without it, cargo chooses the versions anew.
        let _ = moved_in(file, kept);
        let _ = fs::remove_file(file);
    }
}

/// Runs cargo while the file is there. Ctrl-C ends cargo and its program, and this program ends
/// after them, as it does with other signals, which it passes on to cargo.
///
/// # Errors
/// A signal can't be caught, or cargo can't be started.
pub fn run(mut cargo: Command, lock: &mut LockFile) -> Result<ExitStatus, Failure> {
    flag::register(SIGINT, Arc::new(AtomicBool::new(false))).map_err(Failure::input)?;
    let passed = [(SIGTERM, Signal::TERM), (SIGHUP, Signal::HUP)];
    let mut caught = Vec::new();
    for (number, signal) in passed {
        let (read, write) = UnixStream::pair().map_err(Failure::input)?;
        low_level::pipe::register(number, write).map_err(Failure::input)?;
        caught.push((read, signal));
    }
    let mut child = cargo.spawn().map_err(|error| {
        Failure::Input(format!("{} can't be started: {error}", cargo.get_program().display()))
    })?;
    lock.tell(&format!("{}\n", child.id()));
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    for (mut read, signal) in caught {
        // The thread ends with the program.
        thread::spawn(move || {
            while let (Ok(()), Some(pid)) = (read.read_exact(&mut [0]), pid) {
                let _ = kill_process(pid, signal);
            }
        });
    }
    child.wait().map_err(Failure::input)
}

/// Waits until the program that started this one has done its work, or is gone. Then takes its file
/// away, once cargo has ended.
pub fn keep(places: &[OsString]) -> ExitCode {
    let mut told = String::new();
    if io::stdin().read_to_string(&mut told).is_ok()
        && !told.ends_with(DONE)
        && let [file, kept] = places
    {
        if let Some(cargo) = told.lines().next() {
            while Path::new("/proc").join(cargo).exists() {
                thread::sleep(Duration::from_millis(100));
            }
        }
        take_away(&[file, kept], io::stdout());
    }
    ExitCode::SUCCESS
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, PoisonError};

    use super::*;

    /// A child that another test starts holds all locks of this process until it is a program.
    static TURN: Mutex<()> = Mutex::new(());

    fn lock(folder: &Path, keeper: &str) -> LockFile {
        fs::create_dir_all(folder.join("kept")).unwrap();
        fs::write(folder.join("Cargo.toml"), "").unwrap();
        LockFile::absent(folder, &folder.join("kept"), Path::new(keeper)).unwrap()
    }

    #[test]
    fn a_file_is_there_while_cargo_runs_and_only_then() {
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = tempfile::tempdir().unwrap();
        let [file, kept] = ["Cargo.lock", "kept/Cargo.lock"].map(|it| folder.path().join(it));
        for text in ["first", "second"] {
            let held = lock(folder.path(), "/bin/cat");
            assert_eq!(fs::read_to_string(&file).ok(), fs::read_to_string(&kept).ok());
            fs::write(&file, text).unwrap();
            drop(held);
            assert!(!file.exists());
            assert_eq!(fs::read_to_string(&kept).unwrap(), text);
        }
        // The user's own stays.
        fs::write(&file, "theirs").unwrap();
        drop(lock(folder.path(), "/none"));
        assert_eq!(fs::read_to_string(&file).unwrap(), "theirs");
    }

    #[test]
    fn the_last_of_several_commands_takes_the_file_away() {
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("Cargo.lock");
        let first = lock(folder.path(), "/bin/cat");
        fs::write(&file, "ours").unwrap();
        let second = lock(folder.path(), "/bin/cat");
        drop(first);
        assert_eq!(fs::read_to_string(&file).unwrap(), "ours");
        // Cargo has written it again.
        let third = lock(folder.path(), "/bin/cat");
        fs::write(&file, "newer").unwrap();
        drop((second, third));
        assert!(!file.exists());
        assert_eq!(fs::read_to_string(folder.path().join("kept/Cargo.lock")).unwrap(), "newer");
    }

    #[test]
    fn a_file_that_can_not_be_kept_goes_all_the_same() {
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = tempfile::tempdir().unwrap();
        let held = lock(folder.path(), "/bin/cat");
        fs::write(folder.path().join("Cargo.lock"), "ours").unwrap();
        fs::remove_dir(folder.path().join("kept")).unwrap();
        drop(held);
        let left: Vec<_> = fs::read_dir(&folder).unwrap().map(|it| it.unwrap().file_name()).collect();
        assert_eq!(left, ["Cargo.toml"]);
    }
}
