//! Keeps `Cargo.lock` away from workspaces that have none.
//!
//! Cargo writes one wherever it builds. It stays beside the build, and is there while cargo runs.
//! A process of its own takes it away should this program be killed.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use std::{fs, thread};

use probe_cli::output::Failure;
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::{flag, low_level};

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
    keeper: Child,
}

impl LockFile {
    /// Brings the file that was kept, if the workspace has none. `keeper` is the program that runs
    /// [`keep`].
    ///
    /// # Errors
    /// The keeper can't be started.
    pub fn absent(workspace: &Path, kept: &Path, keeper: &Path) -> io::Result<Self> {
        let places = [workspace, kept].map(|folder| folder.join("Cargo.lock"));
        if places[0].exists() {
            return Ok(Self { absent: None });
        }
        // In a group of its own it outlives what ends this one.
        let mut keeper = Command::new(keeper);
        keeper.args(&places).process_group(0).stdin(Stdio::piped());
        let keeper = keeper.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        // The first time there is none to bring.
        let _ = fs::copy(&places[1], &places[0]);
        Ok(Self { absent: Some(Absent { places, keeper }) })
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
            take_away(&absent.places);
        }
        self.tell(DONE);
        if let Some(absent) = &mut self.absent {
            absent.keeper.stdin = None;
            let _ = absent.keeper.wait();
        }
    }
}

fn take_away([file, kept]: &[impl AsRef<Path>; 2]) {
    if fs::copy(file, kept).is_ok() {
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
        take_away(&[file, kept]);
    }
    ExitCode::SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(folder: &Path, keeper: &str) -> LockFile {
        fs::create_dir_all(folder.join("kept")).unwrap();
        LockFile::absent(folder, &folder.join("kept"), Path::new(keeper)).unwrap()
    }

    #[test]
    fn a_file_is_there_while_cargo_runs_and_only_then() {
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
}
