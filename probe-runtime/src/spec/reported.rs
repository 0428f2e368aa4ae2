//! Attachments of any consumer that reports, without its type.

use std::any::Any;

use super::format::Format;
use super::reporter::{Rendered, Reporter};
use crate::control::Attachment;
#[cfg(feature = "metrics")]
use crate::metrics::Metrics;

/// An attachment that reports. Its methods are those of its consumer's [`Reporter`].
pub(crate) trait Reported: Any + Send {
    fn report(&self, format: Format) -> Rendered;

    fn report_within(&self, columns: usize) -> String;

    fn notes(&self) -> Vec<String>;

    #[cfg(feature = "metrics")]
    fn measure(&self, into: &mut Metrics);
}

impl<C: Reporter> Reported for Attachment<C> {
    fn report(&self, format: Format) -> Rendered {
        C::report(self, format)
    }

    fn report_within(&self, columns: usize) -> String {
        C::report_within(self, columns)
    }

    fn notes(&self) -> Vec<String> {
        C::notes(self)
    }

    #[cfg(feature = "metrics")]
    fn measure(&self, into: &mut Metrics) {
        C::measure(self, into);
    }
}
