//! Counts instructions: valgrind's callgrind runs a program and counts each executed instruction,
//! including NOPs.
//!
//! The count is the same for each run of a program, whatever the load of the machine and the
//! address of the code. It measures how much is executed, not how long that takes.

use std::path::Path;
use std::process::Command;

/// Returns whether valgrind is installed; if not, prints that.
pub fn is_there() -> bool {
    let found = Command::new("valgrind").arg("--version").output().is_ok_and(|it| it.status.success());
    if !found {
        println!("there is no valgrind to count instructions with; `apt-get install valgrind`");
    }
    found
}

/// Returns the number of instructions that `program` executes with these arguments, and its output.
/// With the name of a function, only that function and its callees count: the program's own threads
/// and clocks may take a different number each time.
///
/// # Panics
/// If the program fails, or valgrind can't run it.
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
