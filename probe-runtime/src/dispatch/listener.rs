//! Whom a hit is told to: as much of a [`Consumer`](crate::Consumer) as this room needs.

use super::Event;

/// Is called on hits. Each consumer is one.
pub(crate) trait Listener: Send + Sync + 'static {
    /// Whether it needs a thread of its own, which a forked child does not have.
    fn needs_thread(&self) -> bool {
        false
    }

    /// Whether a hit is to be told in the order of the program's own instructions.
    fn needs_order(&self) -> bool {
        false
    }

    /// Handles a hit, on its thread.
    fn hit(&self, event: &Event<'_>);
}
