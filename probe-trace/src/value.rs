//! Fields' values, as a trace keeps them.

/// One field's value. Text is cut where the writer's limit was; `cut` is then the number of bytes
/// that are missing.
///
/// ```
/// use probe_trace::FieldValue;
/// let value = FieldValue::Str { text: "GET /ind".to_owned(), cut: 7 };
/// assert_eq!(value.to_string(), "GET /ind… (7 bytes more)");
/// ```
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum FieldValue {
    /// An unsigned integer.
    U64(u64),
    /// A signed integer.
    I64(i64),
    /// An unsigned integer of 128 bits.
    U128(u128),
    /// A signed integer of 128 bits.
    I128(i128),
    /// A floating-point number.
    F64(f64),
    /// A truth value.
    Bool(bool),
    /// A Unicode scalar value.
    Char(char),
    /// Text. Bytes that are not UTF-8 are replaced.
    Str {
        /// The stored part.
        text: String,
        /// Bytes that were cut off.
        cut: u32,
    },
    /// Text that the value's own code wrote.
    Formatted {
        /// The stored part.
        text: String,
        /// Bytes that were cut off.
        cut: u32,
    },
    /// Bytes.
    Bytes {
        /// The stored part.
        bytes: Vec<u8>,
        /// Bytes that were cut off.
        cut: u32,
    },
    /// A value that can't be shown; the name of its type.
    Opaque(String),
    /// No value: the result of a function that was left by a panic.
    Absent,
    /// No value: a field of the hit panicked while it was evaluated.
    Failed,
    /// A value of a type that the writer or this reader does not know.
    Unknown,
    /// A value for which the record had no room.
    LeftOut,
    /// No value: a string of C whose bytes can't be read.
    Unreadable,
}

impl std::fmt::Display for FieldValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let cut = match self {
            Self::U64(value) => return value.fmt(f),
            Self::I64(value) => return value.fmt(f),
            Self::U128(value) => return value.fmt(f),
            Self::I128(value) => return value.fmt(f),
            Self::F64(value) => return value.fmt(f),
            Self::Bool(value) => return value.fmt(f),
            Self::Char(value) => return value.fmt(f),
            Self::Str { text, cut } | Self::Formatted { text, cut } => {
                f.write_str(text)?;
                *cut
            }
            Self::Bytes { bytes, cut } => {
                bytes.escape_ascii().fmt(f)?;
                *cut
            }
            Self::Opaque(name) => return write!(f, "({name})"),
            Self::Absent => return f.write_str("(absent)"),
            Self::Failed => return f.write_str("(failed)"),
            Self::Unknown => return f.write_str("(unknown)"),
            Self::LeftOut => return f.write_str("(left out)"),
            Self::Unreadable => return f.write_str("(unreadable)"),
        };
        if cut == 0 { Ok(()) } else { write!(f, "… ({cut} bytes more)") }
    }
}
