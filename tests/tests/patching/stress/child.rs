//! Scenarios in child processes: a torn instruction ends in a signal as often as in a wrong result.

use std::env;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::UNIX_EPOCH;

use probe_tests::processes;

const SCENARIO: &str = "PROBE_TEST_SCENARIO";
const SEED: &str = "PROBE_STRESS_SEED";

/// The name of the test that plays the scenarios, in a child.
pub const TEST: &str = "in_a_child";

/// Held while a scenario runs, so that each has the machine for itself.
static TURN: Mutex<()> = Mutex::new(());

/// Runs a scenario in a child, which must not fail.
#[track_caller]
pub fn run(scenario: &str) {
    match try_run(scenario) {
        Ok(report) => print!("{report}"),
        Err(report) => panic!("{report}"),
    }
}

/// Runs a scenario in a child.
///
/// # Errors
/// The child's exit status and output, if it failed.
pub fn try_run(scenario: &str) -> Result<String, String> {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let seed = number(SEED).unwrap_or_else(|| {
        u64::from(UNIX_EPOCH.elapsed().unwrap().subsec_nanos()) << 20 | u64::from(std::process::id())
    });
    let program = env::current_exe().unwrap();
    let child = Command::new(program)
        .args(["--exact", &processes::test(TEST), "--ignored", "--nocapture", "--test-threads=1"])
        .env(SCENARIO, scenario)
        .env(SEED, seed.to_string())
        .process_group(0)
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&child.stdout);
    let ended = match child.status.signal() {
        Some(libc::SIGALRM) => "hung".to_owned(),
        Some(signal) => format!("died of {}", name(signal)),
        None => child.status.to_string(),
    };
    if child.status.success() && stdout.contains(&format!("done: {scenario}")) {
        let said: Vec<_> = stdout.lines().filter(|line| line.starts_with(scenario)).collect();
        return Ok(format!("{}\n{scenario}: {SEED}={seed}\n", said.join("\n")));
    }
    let stderr = String::from_utf8_lossy(&child.stderr);
    Err(format!("{scenario} {ended}; repeat it with {SEED}={seed}\n{stdout}\n{stderr}"))
}

/// The scenario that this process is a child for, and its seed.
pub fn scenario() -> (String, u64) {
    let scenario = env::var(SCENARIO).expect("this is no test: the others say what to play");
    // Threads that wait for a panicking thread would never return.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        hook(panic);
        std::process::abort();
    }));
    // A parent that is killed takes its child along; a child that hangs ends by itself.
    // SAFETY: no pointers.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        libc::alarm(u32::try_from(300 + 2 * soak_seconds() + soak_toggles() / 10_000).unwrap_or(u32::MAX));
    }
    (scenario, number(SEED).expect("a seed"))
}

/// Returns the requested seconds of all scenarios together; 0 means until their toggles are done.
pub fn soak_seconds() -> u64 {
    number("PROBE_SOAK_SECONDS").unwrap_or(0)
}

/// Returns the requested toggles of all scenarios together; 0 means the default.
pub fn soak_toggles() -> u64 {
    number("PROBE_SOAK_TOGGLES").unwrap_or(0)
}

fn number(variable: &str) -> Option<u64> {
    let value = env::var(variable).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{variable}={value} is not a number")))
}

fn name(signal: i32) -> String {
    match signal {
        libc::SIGILL => "SIGILL".to_owned(),
        libc::SIGTRAP => "SIGTRAP".to_owned(),
        libc::SIGSEGV => "SIGSEGV".to_owned(),
        libc::SIGBUS => "SIGBUS".to_owned(),
        libc::SIGFPE => "SIGFPE".to_owned(),
        libc::SIGABRT => "SIGABRT".to_owned(),
        other => format!("signal {other}"),
    }
}
