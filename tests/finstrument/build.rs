//! Compiles the C code, as somebody else's build would. As position-independent as the program.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=src/code.c");
    let out = env::var("OUT_DIR").unwrap();
    let flag = if env::var_os("CARGO_FEATURE_FIXED").is_some() { "-fno-pie" } else { "-fPIE" };
    let (object, archive) = (format!("{out}/code.o"), format!("{out}/libcode.a"));
    let run = |command: &mut Command| assert!(command.status().unwrap().success(), "{command:?}");
    let mut gcc = Command::new("gcc");
    gcc.args(["-g", "-O2", "-finstrument-functions", "-c", "src/code.c", "-o", &object]);
    run(gcc.arg(flag));
    run(Command::new("ar").args(["crs", &archive, &object]));
    println!("cargo::rustc-link-search=native={out}");
    println!("cargo::rustc-link-lib=static=code");
}
