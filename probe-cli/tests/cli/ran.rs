//! Runs `probectl`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The output of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ran {
    pub out: String,
    pub err: String,
    pub code: i32,
}

/// Runs `probectl` in a folder.
pub fn run_in(folder: &Path, arguments: &[&str]) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_probectl"));
    command.current_dir(folder).args(arguments).stdin(Stdio::null()).env_remove("XDG_RUNTIME_DIR");
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran { out: text(output.stdout), err: text(output.stderr), code: output.status.code().unwrap() }
}

/// Runs `probectl`.
pub fn run(arguments: &[&str]) -> Ran {
    run_in(Path::new("."), arguments)
}

/// Returns the stdout of a run that ends well and says nothing else.
#[track_caller]
pub fn out(arguments: &[&str]) -> String {
    let ran = run(arguments);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{arguments:?}");
    ran.out
}

/// Returns the stderr of a run that ends with this code and shows nothing.
#[track_caller]
pub fn fails(code: i32, arguments: &[&str]) -> String {
    let ran = run(arguments);
    assert_eq!((ran.code, ran.out.as_str()), (code, ""), "{arguments:?}: {}", ran.err);
    ran.err
}

/// A folder that goes when the test ends.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("probectl-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// Writes a file; returns its path.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.0.join(name);
        fs::write(&path, content).unwrap();
        path.display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns the path of this program, which has probes.
pub fn this() -> String {
    std::env::current_exe().unwrap().display().to_string()
}

/// Whether files of this build show sites.
pub const HAS_SITES: bool =
    cfg!(all(target_arch = "x86_64", target_os = "linux", not(probe_portable), not(probe_off)));
