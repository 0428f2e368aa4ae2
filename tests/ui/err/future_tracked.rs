//! The location of a call that a closure would not see.

use std::future::{Future, ready};
use std::panic::Location;

use probe_runtime::probe;

#[probe]
#[track_caller]
fn called() -> impl Future<Output = u32> {
    ready(Location::caller().line())
}

#[probe]
#[track_caller]
fn block() -> impl Future<Output = u32> {
    let line = Location::caller().line();
    async move { line }
}

fn main() {
    let _ = called();
    let _ = block();
}
