//! Runs each command of `docs/probectl.md`, `docs/c-values.md` and `docs/modules.md`, in its order,
//! and compares its output.
//!
//! Numbers with units differ from run to run, so they count as equal. This program is also the one
//! that the tour looks at: under the name `shop` it serves orders.

mod blocks;
mod orders;
mod store;

use std::env;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use probe_tests::c_library::{self, compile};
use probe_tests::instrumented;

const PAGES: [&str; 3] = [
    include_str!("../../../docs/probectl.md"),
    include_str!("../../../docs/c-values.md"),
    include_str!("../../../docs/modules.md"),
];

fn main() -> ExitCode {
    let name = env::args_os().next().map(PathBuf::from);
    if name.as_deref().and_then(Path::file_name).is_some_and(|name| name == "shop") {
        return orders::main();
    }
    // As test programs do when somebody asks for a list, or for other tests.
    if env::args().any(|argument| argument == "--list" || argument == "--ignored") {
        return ExitCode::SUCCESS;
    }
    if cfg!(not(all(target_os = "linux", target_arch = "x86_64"))) || cfg!(probe_portable) || cfg!(probe_off)
    {
        println!("skipped: files of this build show no sites");
        return ExitCode::SUCCESS;
    }
    let folder = env::temp_dir().join(format!("probectl-tour-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    fs::copy(env::current_exe().expect("this program"), folder.join("shop")).expect("a copy");
    fs::write(folder.join("unit.probes"), include_str!("unit.probes")).expect("a file");
    let has_static = compile_programs(&folder);
    let failed = take(&folder, has_static);
    // The tour has ended them, unless a command before that has failed.
    let line = "exec 2>/dev/null; kill $(cat shop.pid later.pid static.pid)";
    let _ = Command::new("sh").args(["-c", line]).current_dir(&folder).status();
    let _ = fs::remove_dir_all(&folder);
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Compiles the kiosk, which calls hooks, the depot, which has no probes, and the till, which has a
/// probe and no runtime. Returns
/// whether that is there as a static program, too: a machine may have no static C library.
fn compile_programs(folder: &Path) -> bool {
    let source = |name| Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/shop").join(name);
    let (till, compiler) = (source("till.c"), instrumented::compilers()[0]);
    compile(compiler, &["-g", "-finstrument-functions"], &[&source("kiosk.c")], &folder.join("kiosk"));
    compile(compiler, &["-O1"], &[&till], &folder.join("till"));
    compile(compiler, &["-O1", "-pthread"], &[&source("depot.c")], &folder.join("depot"));
    c_library::run(compiler, &["-O1", "-static"], &[&till], &folder.join("till-static")).is_done
}

/// Takes the tour; returns the number of commands that print something else.
fn take(folder: &Path, has_static: bool) -> usize {
    let commands: Vec<_> = PAGES.iter().flat_map(|page| blocks::commands(page)).collect();
    assert!(commands.len() > 10, "there are commands in the pages: {}", commands.len());
    let (mut failed, mut left_out) = (0, Vec::new());
    if !has_static {
        println!("left out: there is no static C library");
        left_out.extend(["till-static", "static.pid", "static.notes"]);
    }
    for command in &commands {
        let is_left_out = |part: &&str| command.line.contains(*part);
        if left_out.iter().any(is_left_out) {
            continue;
        }
        let printed = run(folder, &command.line);
        if printed.contains("can't be traced") {
            println!("left out: {printed}");
            left_out.extend(["later.pid", "static.pid", "static.notes"]);
            continue;
        }
        for (pid, file) in [("later.pid", "shop"), ("static.pid", "till-static")] {
            if command.line.ends_with(&format!("> {pid}")) {
                await_start(folder, pid, file);
            }
        }
        if command.line.contains('&') && command.line.contains("PROBE_AGENT=1") {
            await_socket(folder);
        }
        let (expected, found) = (blocks::shape(&command.prints), blocks::shape(&printed));
        if expected != found {
            failed += 1;
            println!("FAILED: {}\nexpected:\n{}\nfound:\n{printed}", command.line, command.prints);
        }
    }
    println!("{} commands, {failed} failed", commands.len());
    failed
}

/// Waits until the program in the background can be asked.
fn await_socket(folder: &Path) {
    let sockets = folder.join("latent-probes");
    let begin = Instant::now();
    while fs::read_dir(&sockets).map_or(0, Iterator::count) == 0 {
        assert!(begin.elapsed() < Duration::from_secs(100), "it serves no socket");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Waits until a program in the background has begun, with its C library, unless it is static.
fn await_start(folder: &Path, pid: &str, file: &str) {
    let pid = fs::read_to_string(folder.join(pid)).expect("a file");
    let maps = format!("/proc/{}/maps", pid.trim());
    let has_begun = |maps: &str| {
        maps.contains(&format!("/{file}\n")) && (file == "till-static" || maps.contains("/libc.so"))
    };
    let begin = Instant::now();
    while !fs::read_to_string(&maps).is_ok_and(|it| has_begun(&it)) {
        assert!(begin.elapsed() < Duration::from_secs(100), "it does not start");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Runs a line in a shell; returns its output, with errors, and its exit code if that is not 0.
fn run(folder: &Path, line: &str) -> String {
    let bin = Path::new(env!("CARGO_BIN_EXE_probectl")).parent().expect("a folder");
    let path = env::join_paths(
        [bin.to_owned()].into_iter().chain(env::split_paths(&env::var_os("PATH").unwrap_or_default())),
    );
    let library = env::current_exe().expect("this program").with_file_name("libprobe_agent.so");
    let output = Command::new("sh")
        .args(["-c", &format!("exec 2>&1; {line}")])
        .current_dir(folder)
        .env("PATH", path.expect("paths without colons"))
        .env("XDG_RUNTIME_DIR", folder)
        .env("PROBE_AGENT_LIBRARY", library)
        .stdin(Stdio::null())
        .output()
        .expect("there is a shell");
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    if let Some(code) = output.status.code().filter(|code| *code != 0) {
        writeln!(text, "exit code {code}").expect("a string takes all");
    }
    text
}
