//! A value that is neither number nor text needs `?` or `%`.

use probe_runtime::probe;

#[derive(Debug)]
struct S;

#[probe]
fn f(s: S) {
    probe!("x", s);
}

fn main() {
    f(S);
}
