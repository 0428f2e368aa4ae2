//! Types that serialize as a word, also without `std`.

use serde_core::{Serialize, Serializer};

use crate::abi::{Kind, Type};

/// Serializes types as their `name`.
macro_rules! named {
    ($($named:ty),* $(,)?) => {$(
        /// Serializes as its name.
        impl Serialize for $named {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }
    )*};
}

named!(Kind, Type);
#[cfg(feature = "std")]
named!(crate::registry::ProbeState);
#[cfg(feature = "perf")]
named!(crate::consumers::PerfEvent);
