//! The compiler's warnings.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use cargo_metadata::Message;
use cargo_metadata::diagnostic::DiagnosticLevel;

use crate::fixture::TARGET;
use crate::nested::cargo_into;

/// Each warning, by its lint and text, and how often it is given.
pub type Warnings = BTreeMap<(String, String), usize>;

/// The warnings about a package itself from `cargo <arguments>`, and the programs that were built.
/// They go to `target`; the intermediate files are those of the fixtures, in `build`, where the
/// runtime is compiled already: see `fixture`.
///
/// # Panics
/// If it does not compile; the message has what the compiler said.
#[must_use]
pub fn warnings(
    folder: &Path,
    target: &Path,
    build: &Path,
    arguments: &[&str],
) -> (Warnings, Vec<(String, PathBuf)>) {
    // Cargo's own messages go to a file: no thread reads a second pipe meanwhile.
    let said = target.with_extension("stderr");
    let stderr = File::create(&said).unwrap_or_else(|error| panic!("{}: {error}", said.display()));
    let mut command = cargo_into(folder, arguments[0], target);
    let mut child = command
        .env("CARGO_BUILD_BUILD_DIR", build)
        .env("CARGO_BUILD_TARGET", TARGET)
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .args(["--offline", "--message-format=json"])
        .args(&arguments[1..])
        .stdout(Stdio::piped())
        .stderr(stderr)
        .spawn()
        .expect("cargo runs");
    let (mut warnings, mut programs, mut errors) = (Warnings::new(), Vec::new(), String::new());
    for message in Message::parse_stream(BufReader::new(child.stdout.take().expect("it is piped"))) {
        match message.expect("cargo's messages are JSON") {
            Message::CompilerMessage(it) if it.target.src_path.as_std_path().starts_with(folder) => {
                let said = it.message;
                match said.level {
                    // "N warnings emitted" is no warning of its own.
                    DiagnosticLevel::Warning if !said.spans.is_empty() => {
                        let code = said.code.map_or_else(String::new, |code| code.code);
                        *warnings.entry((code, said.message)).or_default() += 1;
                    }
                    DiagnosticLevel::Error | DiagnosticLevel::Ice => {
                        errors += &said.rendered.unwrap_or(said.message);
                    }
                    _ => {}
                }
            }
            Message::CompilerMessage(it) if it.message.level == DiagnosticLevel::Error => {
                errors += &it.message.rendered.unwrap_or(it.message.message);
            }
            Message::CompilerArtifact(it) if it.target.src_path.as_std_path().starts_with(folder) => {
                if let Some(program) = it.executable {
                    programs.push((it.target.name.clone(), program.into_std_path_buf()));
                }
            }
            _ => {}
        }
    }
    let status = child.wait().expect("cargo runs");
    let said = fs::read_to_string(&said).unwrap_or_default();
    assert!(status.success(), "{} does not compile: {errors}\n{said}", folder.display());
    (warnings, programs)
}
