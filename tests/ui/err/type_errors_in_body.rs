//! Errors in the body of a probed function look as if it had no probe.

use probe_runtime::probe;

#[probe]
fn no_value() -> u32 {
    let n = 1u32;
    n + 1;
}

#[probe]
fn wrong_type(n: u32) -> String {
    if n > 1 {
        return 1;
    }
    n
}

#[probe]
fn borrows() -> &'static str {
    let text = String::new();
    &text
}

#[probe]
fn field() {
    probe!("x", missing, flag = !"x");
}

fn main() {
    no_value();
    wrong_type(1);
    borrows();
    field();
}
