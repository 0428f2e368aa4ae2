//! Reports of consumers: their measurements at one moment.

#[cfg(feature = "call-tree")]
mod flame;
mod groups;
mod memory;
#[cfg(feature = "slow")]
mod slow;
#[cfg(feature = "call-tree")]
mod tree;

pub use groups::{Figures, Group, Groups, Number, OpenInterval, Threads};
pub use memory::{Allocations, FunctionAllocations};
#[cfg(feature = "slow")]
pub use slow::{FunctionSlow, SlowCalls};
#[cfg(feature = "call-tree")]
pub use tree::{Tree, TreeNode};
