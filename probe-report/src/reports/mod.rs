//! Reports of consumers: what they have measured at one moment.

#[cfg(feature = "call-tree")]
mod flame;
#[cfg(feature = "call-tree")]
mod tree;

#[cfg(feature = "call-tree")]
pub use tree::{Tree, TreeNode};
