//! The model's view of a site's instructions.

mod effect;
mod sites;

pub(crate) use effect::{Effect, effect};
