//! Errors of rustc about captures point into the attribute, those about the body into the body.

use probe_runtime::probe;

struct Opaque;

#[probe(args(idd))]
fn unknown(id: u32) {}

#[probe(args(it))]
fn not_a_value(it: Opaque) {}

#[probe(args(?it))]
fn not_debug(it: Opaque) {}

#[probe(ret(length = ret.length()))]
fn no_method() -> String {
    String::new()
}

#[probe(ret(%ret))]
fn not_display() -> Opaque {
    Opaque
}

#[probe(args(*), ret)]
fn wrong_type(n: u32) -> String {
    if n > 1 {
        return 1;
    }
    n
}

#[probe(args(*), ret)]
fn no_value(n: u32) -> u32 {
    n + 1;
}

#[probe(ret)]
fn borrows() -> &'static str {
    let text = String::new();
    &text
}

fn main() {}
