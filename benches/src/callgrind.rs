//! Counting instructions: valgrind's callgrind runs a program and counts each that it executes, NOPs too.
//!
//! The same program counts the same each time, whatever else the machine does and wherever its code lies. It says how much is
//! executed, not how long it takes.

use std::path::Path;
use std::process::Command;

/// Whether there is a valgrind; says so if not.
pub fn is_there() -> bool {
    let found = Command::new("valgrind").arg("--version").output().is_ok_and(|it| it.status.success());
    if !found {
        println!("there is no valgrind to count instructions with; `apt-get install valgrind`");
    }
    found
}

/// How many instructions `program` executes with these arguments, and what it prints. Only those of the function of this name, and of
/// what it calls, if there is one: threads and clocks of a program's own may take a different number each time.
///
/// # Panics
/// If it fails, or valgrind can't run it.
pub fn instructions(
    program: &Path,
    arguments: &[&str],
    variables: &[(&str, &str)],
    only: Option<&str>,
) -> (u64, String) {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    command.args(only.map(|name| format!("--toggle-collect=*{name}*"))).arg(program).args(arguments);
    let output = command.envs(variables.iter().copied()).output().expect("valgrind runs");
    let [stdout, stderr] =
        [&output.stdout, &output.stderr].map(|it| String::from_utf8_lossy(it).into_owned());
    assert!(output.status.success(), "{}: {}\n{stdout}\n{stderr}", program.display(), output.status);
    let counted = stderr.lines().find_map(|it| it.split_once("Collected : ")?.1.trim().parse().ok());
    (counted.unwrap_or_else(|| panic!("valgrind does not say what it has counted: {stderr}")), stdout)
}
