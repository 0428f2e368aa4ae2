//! `cc`: builds with other compilers.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::ran::{Folder, fails};

/// A folder with a copy of `probectl`, and further programs beside it.
fn installed(name: &str, programs: &[&str]) -> Folder {
    let folder = Folder::new(name);
    fs::copy(env!("CARGO_BIN_EXE_probectl"), folder.0.join("probectl")).unwrap();
    for program in programs {
        let path = folder.file(program, "#!/bin/sh\n");
        fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
    }
    folder
}

fn ran(folder: &Path, variables: &[(&str, &str)], arguments: &[&str]) -> Output {
    let mut command = Command::new(folder.join("probectl"));
    for name in ["CC", "CXX", "PROBE_CC", "PROBE_CXX", "PROBE_CC_LOG", "PROBE_CC_FILTER", "MAKEFLAGS"] {
        command.env_remove(name);
    }
    command.envs(variables.iter().copied()).current_dir(folder).stdin(Stdio::null());
    command.args(arguments).output().unwrap()
}

fn said(output: &Output) -> String {
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

const SHOWN: &str = "echo \"$CC $CXX ($PROBE_CC) ($PROBE_CXX) ($PROBE_CC_FILTER) ($PROBE_CC_LOG)\"";

#[test]
fn a_build_gets_the_compilers() {
    let folder = installed("cc", &["probe-cc", "probe-cxx"]);
    let at = fs::canonicalize(&folder.0).unwrap().display().to_string();
    let compilers = format!("{at}/probe-cc {at}/probe-cxx");
    let shown = |variables: &[(&str, &str)], options: &[&str]| {
        let arguments = [&["cc"], options, &["--", "sh", "-c", SHOWN]].concat();
        said(&ran(&folder.0, variables, &arguments))
    };
    assert_eq!(shown(&[], &[]), format!("{compilers} () () () ()\n"));
    let before = [("CC", "ccache clang"), ("CXX", "clang++")];
    assert_eq!(shown(&before, &[]), format!("{compilers} (ccache clang) (clang++) () ()\n"));
    let named = [("CC", "clang"), ("PROBE_CC", "gcc -m64"), ("CXX", "/bin/probe-cxx")];
    assert_eq!(shown(&named, &[]), format!("{compilers} (gcc -m64) () () ()\n"));
    let options = ["--filter", "net::*;!x", "--log", "a/log"];
    assert_eq!(shown(&[], &options), format!("{compilers} () () (net::*;!x) ({at}/a/log)\n"));
}

#[test]
fn make_gets_them_as_arguments() {
    let folder = installed("cc-make", &["probe-cc", "probe-cxx"]);
    let at = fs::canonicalize(&folder.0).unwrap().display().to_string();
    let make = folder.file("make", "#!/bin/sh\necho \"$@\"\n");
    fs::set_permissions(&make, Permissions::from_mode(0o755)).unwrap();
    assert_eq!(
        said(&ran(&folder.0, &[], &["cc", "--", &make, "-j2", "all"])),
        format!("-j2 all CC={at}/probe-cc CXX={at}/probe-cxx\n")
    );
    assert_eq!(
        said(&ran(&folder.0, &[], &["cc", &make, "CC=tcc", "all"])),
        format!("CC=tcc all CXX={at}/probe-cxx\n")
    );
}

#[test]
fn a_build_ends_as_it_would() {
    let folder = installed("cc-ends", &["probe-cc", "probe-cxx"]);
    let of = |script: &str| ran(&folder.0, &[], &["cc", "--", "sh", "-c", script]).status;
    assert_eq!(of("exit 7").code(), Some(7));
    assert_eq!(of("kill -TERM $$").signal(), Some(15));
}

#[test]
fn missing_compilers_are_named() {
    let folder = installed("cc-none", &["probe-cc"]);
    let output = ran(&folder.0, &[("PATH", "/none")], &["cc", "--", "/bin/true"]);
    assert_eq!(output.status.code(), Some(3));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("probe-cxx is neither beside probectl nor in PATH; install it by"), "{told}");
    let folder = installed("cc none", &["probe-cc", "probe-cxx"]);
    let output = ran(&folder.0, &[], &["cc", "--", "true"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&output.stderr).contains("whose value is split at spaces"));
    let folder = installed("cc-no-command", &["probe-cc", "probe-cxx"]);
    let output = ran(&folder.0, &[], &["cc", "--", "./none"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("./none can't be started"));
    assert!(fails(2, &["cc"]).contains("<CMD>"));
    assert!(fails(2, &["cc", "--json", "true"]).contains("all output of `cc` is the build's own"));
}
