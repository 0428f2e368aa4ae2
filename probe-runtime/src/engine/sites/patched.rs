//! Sites whose text is patched: their instructions, batches that switch them, and the writes of
//! others that such a batch finds.

mod batch;
mod foreign_writes;
mod site;
mod trap;

pub(crate) use batch::{Batch, LastState, exchange};
pub(crate) use foreign_writes::foreign_writes;
pub(crate) use site::Site;
pub(crate) use trap::alias_works;
