//! The receiver of hits: the part of [`Consumer`](crate::Consumer) that this room needs.

use super::Event;

/// The [quick](super::quick) function of a consumer, and the quicker that it is called for.
#[derive(Clone, Copy, Debug)]
pub struct Quick {
    pub(super) run: *const (),
    pub(super) quicker: *const (),
}

/// Receives hits. Each consumer is one.
pub(crate) trait Listener: Send + Sync + 'static {
    /// Returns whether it needs a thread of its own, which a forked child does not have.
    fn needs_thread(&self) -> bool {
        false
    }

    /// Returns whether hits must be delivered in the order of the program's own instructions.
    fn needs_order(&self) -> bool {
        false
    }

    /// Handles a hit, on its thread.
    fn hit(&self, event: &Event<'_>);
}
