//! With `usdt`, fields have types that a register holds.

use probe_runtime::{point, probe};

#[probe(usdt, args(name))]
fn text(name: &String) {}

#[probe(usdt, args(name))]
fn owned(name: String) {
    drop(name);
}

#[probe(usdt, ret)]
fn result() -> Result<u32, u32> {
    Ok(1)
}

fn main() {
    let ratio = 0.5;
    point!(usdt, "float", ratio);
    text(&String::new());
    owned(String::new());
    result().ok();
}
