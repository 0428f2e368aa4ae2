//! `doctor`: checks of this machine and this process.

use std::env;
use std::fmt::Write;
use std::path::PathBuf;

use probe_runtime::__tools::{Table, try_event};

use crate::doctor::{Check, Machine, Verdict, checks};
use crate::output::{Exit, Failure, Output, document};
use crate::text::escape;

pub(super) fn run(is_json: bool) -> Result<Output, Failure> {
    let folder = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let counts = |event| try_event(event).map_err(|missing| missing.to_string());
    let checks = checks(&Machine::this(), &probe_runtime::self_test(), counts, folder.as_deref());
    let mut shown =
        if is_json { Output::text(document("doctor", &(), &checks)?) } else { Output::table(text(&checks)) };
    if checks.iter().any(|check| check.verdict == Verdict::Bad) {
        shown.exit = Exit::Finding;
    }
    Ok(shown)
}

fn text(checks: &[Check]) -> String {
    let mut table = Table::new(&["check", "result", "seen"]);
    for check in checks {
        let row = [check.name, check.verdict.name(), &escape(&check.seen)];
        table.row(row.map(str::to_owned).to_vec());
    }
    let mut text = format!("{table}\n");
    for check in checks.iter().filter(|check| !check.advice.is_empty()) {
        // Writing to a string never fails.
        let _ = writeln!(text, "{}: {}", check.name, check.advice);
    }
    text
}
