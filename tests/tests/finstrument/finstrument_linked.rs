//! C code that is linked into the program itself, position-independent or not, under both linkers:
//! called before `main`, too. A slice has such a program in `live` of `probe-cli`.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_portable, probe_off))))]

use probe_tests::fixture::{Configuration, Linker};
use probe_tests::whole;

const SAID: &str = "\
begin entry 5 1 0
start entry 4 1 0
start exit 4 1 0
twice entry 6 1 10
twice exit 6 1 10
work entry 7 1 10
work exit 7 1 10
";

fn configuration(name: &'static str) -> Configuration {
    Configuration::new(env!("CARGO_TARGET_TMPDIR"), "finstrument", name)
}

fn check(configuration: &Configuration) {
    if !whole::has("finstrument_linked") {
        return;
    }
    let built = configuration.build("linked");
    let output = built.run("linked", &[]);
    let lines: Vec<_> = output.lines().collect();
    let (last, counts) = lines.split_last().expect("it says something");
    // The constructor ends in a jump to the hook, which stays one.
    let counted: Vec<_> = counts.iter().filter(|line| !line.starts_with("begin exit")).copied().collect();
    assert_eq!(counted, SAID.lines().collect::<Vec<_>>(), "{}", built.description());
    assert!(
        ["8 discovered, 8 patched, 0 kept, 0 lost", "8 discovered, 7 patched, 1 kept, 0 lost"].contains(last),
        "{}: {last}",
        built.description()
    );
}

#[test]
fn position_independent() {
    check(&configuration("pie"));
}

#[test]
fn not_position_independent() {
    let flags = ["-Crelocation-model=static", "-Clink-arg=-no-pie"];
    check(&configuration("no-pie").features(&["fixed"]).flags_of_program(&flags));
}

#[test]
fn by_gnu_ld() {
    check(&configuration("gnu").linker(Linker::Gnu));
}
