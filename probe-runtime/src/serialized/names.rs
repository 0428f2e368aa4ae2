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

named!(Kind);
#[cfg(feature = "std")]
named!(crate::registry::ProbeState);
#[cfg(feature = "perf")]
named!(crate::consumers::PerfEvent);

/// Serializes as a word: `u64`, `str`.
impl Serialize for Type {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(word(*self))
    }
}

pub(super) const fn word(ty: Type) -> &'static str {
    match ty {
        Type::U64 => "u64",
        Type::I64 => "i64",
        Type::U128 => "u128",
        Type::I128 => "i128",
        Type::F64 => "f64",
        Type::Bool => "bool",
        Type::Char => "char",
        Type::Str => "str",
        Type::Bytes => "bytes",
        Type::Format => "format",
        Type::CStr => "cstr",
        Type::Absent => "absent",
        Type::Opaque => "opaque",
        Type::Failed => "failed",
    }
}
