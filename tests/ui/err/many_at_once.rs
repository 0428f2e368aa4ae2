//! All errors of one macro call are reported together.

use probe_runtime::probe;

#[probe(nome = "a", name = 3, crate = "x")]
async fn f(n: Option<u32>) {
    probe!("", n, n = n?, m = n = None);
}

fn main() {
    drop(f(None));
}
