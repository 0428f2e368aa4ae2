//! Types that serialize as a word.

use serde_core::{Serialize, Serializer};

/// Serializes types as their `name`.
macro_rules! named {
    ($($named:ty),* $(,)?) => {$(
        impl Serialize for $named {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }
    )*};
}

named!(crate::engine::registry::ProbeState);
#[cfg(feature = "perf")]
named!(crate::consumers::PerfEvent);
