//! How `args` and `ret` are written.

#![allow(unused_variables)]

use probe_runtime::probe;

#[probe(args)]
fn no_list(a: u32) {}

#[probe(args())]
fn empty(a: u32) {}

#[probe(args = a)]
fn value(a: u32) {}

#[probe(args(a), args(b))]
fn twice(a: u32, b: u32) {}

#[probe(args(a.b))]
fn not_a_field(a: u32) {}

#[probe(args(a, *))]
fn star_last(a: u32) {}

#[probe(args(a, a))]
fn duplicate(a: u32) {}

#[probe(args(a = b?))]
fn leaves(b: Option<u32>) {}

#[probe(args(ret))]
fn too_early(a: u32) -> u32 {
    a
}

#[probe(ret = 1)]
fn ret_value() -> u32 {
    1
}

#[probe(ret())]
fn ret_empty() -> u32 {
    1
}

#[probe(ret(outcome = 1))]
fn ret_outcome() -> u32 {
    1
}

#[probe(ret, ret)]
fn ret_twice() -> u32 {
    1
}

fn main() {}
