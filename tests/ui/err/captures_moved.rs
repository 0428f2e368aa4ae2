//! A result's fields can't use what the body has taken.

use probe_runtime::probe;

#[probe(ret(name = name.len()))]
fn moved(name: String) -> u32 {
    drop(name);
    1
}

fn main() {
    moved(String::new());
}
