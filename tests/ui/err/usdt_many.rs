//! With `usdt`, a future's address is one of four fields.

use probe_runtime::probe;

#[probe(usdt, args(a, b, c, d))]
async fn future(a: u32, b: u32, c: u32, d: u32) -> u32 {
    a + b + c + d
}

fn main() {
    drop(future(1, 2, 3, 4));
}
