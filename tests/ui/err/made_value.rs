//! Functions that make values out of words are not for users: words may be anything.

#![forbid(unsafe_code)]

use probe_runtime::abi::{InMemory, Passage};

fn main() {
    println!("{}", InMemory::two::<8>(8, 16).get());
}
