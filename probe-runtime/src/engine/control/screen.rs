//! Attaches a consumer behind another one, which passes some hits on to it.

use std::sync::Arc;

use super::untyped::Untyped;
use super::{Attachment, Consumer, ProbeSet};
use crate::engine::dispatch::Subscription;
use crate::engine::error::Error;
use crate::engine::registry::ProbeId;

/// A consumer that passes some hits on to another one, as that one's reports see it.
pub(crate) trait Screen: Send + Sync {
    /// Returns notes that complete the report, a line each.
    fn notes(&self) -> Vec<String>;

    /// Returns the hits that were passed on, if they were to be counted only.
    fn counted(&self, id: ProbeId) -> Option<u64>;
}

impl ProbeSet {
    /// Attaches a consumer behind another one, which gets the hits and passes some of them on. The
    /// attachment is the first one's.
    pub(crate) fn attach_behind<C: Consumer, S: Consumer + Screen>(
        &self,
        consumer: Arc<C>,
        screen: S,
    ) -> Result<Attachment<C>, Error> {
        let screen = Arc::new(screen);
        let subscription = Arc::new(Subscription::new(Arc::clone(&screen)));
        let dynamic: Arc<dyn Consumer> = Arc::clone(&screen) as _;
        let untyped = Untyped::begin(self, &dynamic, subscription)?;
        drop(dynamic);
        let untyped = untyped.behind(Arc::<S>::clone(&screen));
        let attachment = Attachment::new(consumer, untyped);
        attachment.untyped().finish(&*screen)?;
        Ok(attachment)
    }
}
