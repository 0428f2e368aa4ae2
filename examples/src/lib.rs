//! Examples of latent probes. The programs are the `.rs` files beside `src/`. Here is what their tests share: each runs the built example
//! as a process of its own and looks at what a user would see.

mod run;

pub use run::{Outcome, Run};
