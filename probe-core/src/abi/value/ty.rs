//! The types of values, and their numbers, which cross from sites to consumers.

/// The type of a field's value.
///
/// ```
/// use probe_runtime::field::{Type, ValueRef};
///
/// fn suits(value: &ValueRef<'_>, ty: Type) -> bool {
///     matches!((value, ty), (ValueRef::U64(_), Type::U64) | (ValueRef::Str(_), Type::Str))
/// }
/// assert!(suits(&ValueRef::U64(7), Type::U64));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u32)]
pub enum Type {
    /// An unsigned integer of up to 64 bits.
    U64 = 1,
    /// A signed integer of up to 64 bits.
    I64 = 2,
    /// An unsigned integer of 128 bits.
    U128 = 3,
    /// A signed integer of 128 bits.
    I128 = 4,
    /// A floating-point number.
    F64 = 5,
    /// A truth value.
    Bool = 6,
    /// A Unicode scalar value.
    Char = 7,
    /// UTF-8 text.
    Str = 8,
    /// Bytes.
    Bytes = 9,
    /// A value that formats itself, from `field = ?expr` or `field = %expr`.
    Format = 10,
    /// A C string: ended by a NUL, in any encoding, or null.
    CStr = 11,
    /// No value: the result of a function that was left by a panic.
    Absent = 12,
    /// A value that can't be shown; the name of its type.
    Opaque = 13,
    /// No value: a field of this hit panicked while it was evaluated.
    Failed = 14,
}

impl Type {
    /// All types, in the order of their encoding.
    pub const ALL: [Self; 14] = [
        Self::U64,
        Self::I64,
        Self::U128,
        Self::I128,
        Self::F64,
        Self::Bool,
        Self::Char,
        Self::Str,
        Self::Bytes,
        Self::Format,
        Self::CStr,
        Self::Absent,
        Self::Opaque,
        Self::Failed,
    ];

    /// Returns the word that lists and reports have for it.
    ///
    /// ```
    /// use probe_runtime::field::Type;
    /// assert_eq!([Type::U64, Type::Str, Type::CStr].map(Type::name), ["u64", "str", "cstr"]);
    /// ```
    pub const fn name(self) -> &'static str {
        match self {
            Self::U64 => "u64",
            Self::I64 => "i64",
            Self::U128 => "u128",
            Self::I128 => "i128",
            Self::F64 => "f64",
            Self::Bool => "bool",
            Self::Char => "char",
            Self::Str => "str",
            Self::Bytes => "bytes",
            Self::Format => "format",
            Self::CStr => "cstr",
            Self::Absent => "absent",
            Self::Opaque => "opaque",
            Self::Failed => "failed",
        }
    }
}

const _: () = {
    let mut at = 0;
    while at < Type::ALL.len() {
        assert!(Type::ALL[at] as usize == at + 1);
        at += 1;
    }
};
