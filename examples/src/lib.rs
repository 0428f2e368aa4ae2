//! Examples of latent probes. The programs are the `.rs` files beside `src/`. Here is the work of those that are measured, [`programs`], which
//! benchmarks do as well, and what tests share: each runs the built example as a process of its own and looks at what a user would see.

pub mod programs;
mod run;

pub use run::{Outcome, Run};
