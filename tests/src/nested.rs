//! A cargo that a test runs, without what the outer one hands down.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Returns a command for the cargo that runs the test, in this folder, to do `verb`.
///
/// Builds differ in the settings that they name, and in no others: two with equal features,
/// profiles and flags share the intermediate files of their dependencies. No test reads debug
/// information of those, or of build scripts.
#[must_use]
pub fn cargo(folder: &Path, verb: &str) -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // Clippy's own cargo gets only the arguments that follow the verb.
    cargo.current_dir(folder).arg(verb);
    for (key, _) in env::vars_os() {
        if key.to_str().is_some_and(is_handed_down) {
            cargo.env_remove(key);
        }
    }
    // `ui.rs` of `probe-ui-tests` repeats those of build scripts and procedural macros.
    for part in ["package.\"*\"", "build-override"] {
        for setting in ["debug=0", "codegen-units=16"] {
            cargo.arg(format!("--config=profile.dev.{part}.{setting}"));
        }
    }
    // Configurations share the intermediate files, so incremental data would be useless.
    cargo.env("CARGO_INCREMENTAL", "0");
    cargo
}

/// The same, for programs and intermediate files in `target`.
#[must_use]
pub fn cargo_into(folder: &Path, verb: &str, target: &Path) -> Command {
    let mut cargo = cargo(folder, verb);
    cargo.env("CARGO_TARGET_DIR", target);
    cargo
}

/// Returns whether a variable of the outer cargo or of the user would change a nested build.
fn is_handed_down(key: &str) -> bool {
    let prefixes =
        ["CARGO_PROFILE_", "CARGO_BUILD_", "CARGO_TARGET_", "CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_CFG_"];
    matches!(key, "RUSTFLAGS" | "CARGO_ENCODED_RUSTFLAGS" | "CARGO_INCREMENTAL" | "PROBES")
        || prefixes.iter().any(|prefix| key.starts_with(prefix))
}

/// Copies the outer workspace's lock file into `folder`: cargo then uses the versions that it pins,
/// and neither resolves nor downloads others.
///
/// # Panics
/// If it can't be copied.
pub fn lend_lock_file(folder: &Path) {
    let outer =
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the outer workspace").join("Cargo.lock");
    fs::copy(&outer, folder.join("Cargo.lock")).expect("the lock file can be copied");
}
