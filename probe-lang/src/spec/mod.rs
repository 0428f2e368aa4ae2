//! Specs such as `PROBES`: which probes get which consumer.

mod expressions;
mod selected;

pub use expressions::{Blanked, blank_expressions};
pub use selected::selected;
