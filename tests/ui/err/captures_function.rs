//! Functions that have no result to record, or none that could be.

#![allow(unused_variables)]

use probe_runtime::probe;

#[probe(ret)]
fn never() -> ! {
    loop {}
}

#[probe(ret)]
#[track_caller]
fn tracked() -> u32 {
    1
}

#[probe(args(*))]
fn many(
    a: u8, b: u8, c: u8, d: u8, e: u8, f: u8, g: u8, h: u8, i: u8, j: u8, k: u8, l: u8, m: u8, n: u8, o: u8, p: u8,
    q: u8, r: u8, s: u8, t: u8, u: u8, v: u8, w: u8, x: u8, y: u8, z: u8, aa: u8, ab: u8, ac: u8, ad: u8, ae: u8, af: u8,
    ag: u8,
) {
}

fn main() {
    tracked();
    never();
}
