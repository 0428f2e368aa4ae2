//! Examples of latent probes. The programs are the `.rs` files and folders beside `src/`. This
//! library is shared by their tests: each test runs the built example as a process of its own and
//! checks its output.

mod run;

pub use run::{Outcome, Run};
