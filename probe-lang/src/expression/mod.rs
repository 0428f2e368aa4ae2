//! A small language over a hit's fields: `bytes > 1024 && peer ~ "10.*"`. [`Predicate`] has the
//! grammar. Pure.
//!
//! ```text
//! text ──▶ token ▶ parse ──▶ tree ──▶ check (per probe: names, types) ▶ compile ──▶ program
//!                                                                                    │ a hit's values
//!                                                                                    ▼
//!                                                                       a truth value, a number, or a fault
//! ```
//! Life cycle: a text is parsed when it is written, and compiled once for each probe when its
//! consumer is attached. Hits run the program. It is dropped with the consumer.
//!
//! Cost: a program is a flat list of at most `MOST_NODES` steps, and each step leads to a later
//! one, so it ends. It reads at most `MOST_TEXT` bytes of a text, and uses no heap, lock or
//! system call. A comparison of an integer with a constant is one step: a subtraction and a
//! comparison; a condition of such steps alone is evaluated inline in the hit ([`Program::quick`]).
//!
//! A step that has no result is a [`Fault`], not a crash: a field without a value, a division by
//! zero, a number beyond 128 bits. Its consumer counts faults.

mod check;
mod compile;
mod datum;
mod parse;
mod predicate;
mod print;
mod program;
mod token;
mod tree;

pub use check::{Callers, Mismatch, Scope, groups, number};
pub use datum::{Datum, FAULTS, Fault};
pub use parse::Parser;
pub use predicate::Predicate;
pub use program::{Program, Surroundings};
pub use tree::{Comparison, Node};

/// Greatest length of an expression, in bytes.
pub const MOST_BYTES: usize = 4000;
/// Greatest number of an expression's parts.
const MOST_NODES: usize = 256;
/// Greatest number of operators and brackets inside of each other.
const MOST_DEPTH: usize = 32;
/// Bytes of a text that are compared. Longer ones differ from all constants.
const MOST_TEXT: usize = 4096;
