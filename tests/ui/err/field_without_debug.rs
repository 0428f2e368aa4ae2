//! A field that can't be shown as it is asked to be is one error, at the field.

use probe_runtime::{point, probe};

struct N;

#[probe]
fn marks(n: N) {
    probe!("debug", ?n);
    probe!("display", %n);
    probe!("named", bytes = 3, it = ?n);
}

fn outside(n: N) {
    point!("outside", ?n);
}

#[probe(args(?n), ret(%ret))]
fn captured(n: N) -> N {
    n
}

#[probe]
fn generic<T>(t: T) {
    probe!("generic", ?t);
}

fn main() {
    marks(N);
    outside(N);
    captured(N);
    generic(1);
}
