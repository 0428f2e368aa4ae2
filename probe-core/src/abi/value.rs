//! A field's value as it crosses from a site to a consumer.
//!
//! Life cycle: the site's cold block makes it on its stack; consumers borrow it; it is gone when
//! the hit returns. Cost: three words per field. Values are formatted or copied only if a consumer
//! asks for it.

// Safety: relies on only this module's functions making a `Value`, so that its words match its
// type, and on its lifetime, which keeps the borrowed data alive.
#![expect(unsafe_code, reason = "see above")]

mod of_c;

use core::fmt::{self, Debug, Display};
use core::marker::PhantomData;
use core::mem::{offset_of, transmute};
use core::slice;

use super::formatted::{self, FormatFn};
use super::passage::Passage;
#[cfg(feature = "std")]
pub use of_c::unreadable_texts;

/// One field's value: a type and two words.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Value<'a> {
    pub(crate) ty: u64,
    pub(crate) words: [u64; 2],
    /// Neither `Send` nor `Sync`: a value that formats itself may be neither.
    pub(super) borrow: PhantomData<&'a *const ()>,
}

// The way in reads values by these numbers, too.
const _: () = {
    assert!(size_of::<Value<'_>>() == 24);
    assert!(offset_of!(Value<'_>, ty) == 0 && offset_of!(Value<'_>, words) == 8);
};

/// A field's value, as a consumer sees it.
///
/// ```
/// use probe_runtime::field::ValueRef;
///
/// fn bytes(value: ValueRef<'_>) -> Option<u64> {
///     if let ValueRef::U64(bytes) = value { Some(bytes) } else { None }
/// }
/// assert_eq!(bytes(ValueRef::U64(7)), Some(7));
/// assert_eq!(ValueRef::Str("x").to_string(), "x");
/// ```
#[derive(Clone, Copy)]
#[non_exhaustive]
pub enum ValueRef<'a> {
    /// An unsigned integer of up to 64 bits.
    U64(u64),
    /// A signed integer of up to 64 bits.
    I64(i64),
    /// An unsigned integer of 128 bits.
    U128(u128),
    /// A signed integer of 128 bits.
    I128(i128),
    /// A floating-point number; an `f32` is widened.
    F64(f64),
    /// A truth value.
    Bool(bool),
    /// A Unicode scalar value.
    Char(char),
    /// UTF-8 text.
    Str(&'a str),
    /// Bytes.
    Bytes(&'a [u8]),
    /// A value that formats itself.
    Format(&'a dyn Display),
    /// No value: the function was left by a panic, and this is its result. Shown as `(absent)`.
    Absent,
    /// A value of a type that is neither a [`Field`] nor [`Debug`]: the type's name. Shown as
    /// `(name)`.
    Opaque(&'a str),
    /// No value: a field of this hit panicked while it was evaluated; see
    #[cfg_attr(feature = "std", doc = "[`failed_captures`](crate::failed_captures).")]
    #[cfg_attr(not(feature = "std"), doc = "`failed_captures`.")]
    /// Shown as `(failed)`.
    Failed,
    /// A value of a type that this reader does not know, from a newer site.
    Unknown,
    /// No value: a string or bytes of C that can't be read, or whose pointer is invalid; see
    #[cfg_attr(feature = "std", doc = "[`unreadable_texts`](crate::unreadable_texts).")]
    #[cfg_attr(not(feature = "std"), doc = "`unreadable_texts`.")]
    /// Shown as `(unreadable)`.
    Unreadable,
}

/// A type whose values can be a probe's field directly: integers, floats, `bool`, `char`, text and
/// bytes.
///
/// Values of other types are recorded as text: `field = ?expr` uses `Debug`, and `field = %expr`
/// uses `Display`.
///
/// ```
/// use probe_runtime::field::Field;
/// use probe_runtime::point;
///
/// /// Records a setting of any type that can be a field.
/// fn record(name: &str, setting: impl Field) {
///     point!("setting", name = name, setting = setting);
/// }
///
/// record("retries", 3);
/// record("host", "localhost");
/// record("verbose", true);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be a probe's field as it is",
    label = "neither a number, `bool`, `char`, text nor bytes",
    note = "write `field = ?expr` to record it with `Debug`, or `field = %expr` with `Display`"
)]
pub trait Field {
    /// Passes the value on towards the consumer.
    #[doc(hidden)]
    fn pass<P: Passage>(&self) -> P::Out<'_>;
}

/// Makes the value of `field = expr`.
#[inline(always)]
pub fn value<P: Passage, T: Field + ?Sized>(field: &T) -> P::Out<'_> {
    field.pass::<P>()
}

/// Makes the value that stands for none.
#[inline(always)]
pub fn absent<'a, P: Passage>(_: ()) -> P::Out<'a> {
    P::two::<{ Type::Absent as u64 }>(0, 0)
}

/// Makes a value with the name of a type in its place.
#[inline(always)]
pub(crate) fn opaque<'a, P: Passage>(name: &'static str) -> P::Out<'a> {
    P::two::<{ Type::Opaque as u64 }>(name.as_ptr() as u64, name.len() as u64)
}

impl Value<'_> {
    /// Makes the value of a field that no site passes, but the runtime reads.
    ///
    /// # Safety
    /// The words must be those of a value of this type, whose data, if it has any, is alive as long
    /// as this value.
    #[cfg(feature = "std")]
    #[inline(always)]
    pub unsafe fn of_words(ty: Type, words: [u64; 2]) -> Self {
        Self { ty: ty as u64, words, borrow: PhantomData }
    }

    /// The value of each field of a hit in which a field panicked.
    #[cfg(not(probe_backend = "off"))]
    pub(crate) const FAILED: Self = Self { ty: Type::Failed as u64, words: [0, 0], borrow: PhantomData };

    /// Returns the number of the value's type, which this reader may not know.
    #[inline(always)]
    pub const fn ty_number(&self) -> u64 {
        self.ty
    }

    /// Returns the value's two words, whose meaning depends on its type.
    #[inline(always)]
    pub const fn words(&self) -> [u64; 2] {
        self.words
    }

    /// Returns the value's type; `None` if this reader does not know it.
    #[inline]
    pub fn ty(&self) -> Option<Type> {
        Type::from_number(self.ty)
    }

    /// Returns the value itself.
    #[expect(
        clippy::cast_possible_wrap,
        clippy::cast_possible_truncation,
        reason = "the words are what `ty` says"
    )]
    #[inline]
    pub fn get(&self) -> ValueRef<'_> {
        let [low, high] = self.words;
        let wide = u128::from(low) | u128::from(high) << 64;
        let Some(ty) = self.ty() else { return ValueRef::Unknown };
        match ty {
            Type::U64 => ValueRef::U64(low),
            Type::I64 => ValueRef::I64(low as i64),
            Type::U128 => ValueRef::U128(wide),
            Type::I128 => ValueRef::I128(wide as i128),
            Type::F64 => ValueRef::F64(f64::from_bits(low)),
            Type::Bool => ValueRef::Bool(low != 0),
            Type::Char => ValueRef::Char(char::from_u32(low as u32).unwrap_or(char::REPLACEMENT_CHARACTER)),
            Type::Bytes if !of_c::can_read(self.words) => ValueRef::Unreadable,
            // SAFETY: the words are the pointer and length of a slice borrowed for 'a.
            Type::Bytes => ValueRef::Bytes(unsafe { bytes(low, high) }),
            // SAFETY: as above, and the slice was a `str`.
            Type::Str => ValueRef::Str(unsafe { str::from_utf8_unchecked(bytes(low, high)) }),
            // SAFETY: as above; the name of a type.
            Type::Opaque => ValueRef::Opaque(unsafe { str::from_utf8_unchecked(bytes(low, high)) }),
            Type::Absent => ValueRef::Absent,
            Type::Failed => ValueRef::Failed,
            Type::Format => ValueRef::Format(self),
            Type::CStr if low == 0 => ValueRef::Str("(null)"),
            Type::CStr => {
                // SAFETY: the word is the address of a string that is alive for 'a, or of none.
                let text = unsafe { of_c::text(low, of_c::MOST) };
                text.map_or(ValueRef::Unreadable, |text| {
                    str::from_utf8(text).map_or(ValueRef::Bytes(text), ValueRef::Str)
                })
            }
        }
    }
}

impl<'a> ValueRef<'a> {
    /// Returns the value as an unsigned number, if it is an integer that is not negative and fits.
    #[inline]
    pub fn as_u64(self) -> Option<u64> {
        match self {
            Self::U64(value) => Some(value),
            Self::I64(value) => value.try_into().ok(),
            Self::U128(value) => value.try_into().ok(),
            Self::I128(value) => value.try_into().ok(),
            _ => None,
        }
    }

    /// Returns the value as a signed number, if it is an integer that fits.
    #[inline]
    pub fn as_i64(self) -> Option<i64> {
        match self {
            Self::U64(value) => value.try_into().ok(),
            Self::I64(value) => Some(value),
            Self::U128(value) => value.try_into().ok(),
            Self::I128(value) => value.try_into().ok(),
            _ => None,
        }
    }

    /// Returns the value as a floating-point number, if it is one.
    #[inline]
    pub fn as_f64(self) -> Option<f64> {
        if let Self::F64(value) = self { Some(value) } else { None }
    }

    /// Returns the value as text, if it is text.
    #[inline]
    pub fn as_str(self) -> Option<&'a str> {
        if let Self::Str(value) = self { Some(value) } else { None }
    }
}

impl Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.ty() != Some(Type::Format) {
            return Display::fmt(&self.get(), f);
        }
        let [data, format] = self.words;
        // SAFETY: the second word of a `Format` value is a `FormatFn`, which was made for the value
        // that the first word points to.
        unsafe {
            formatted::show(data as *const (), transmute::<*const (), FormatFn>(format as *const ()), f)
        }
    }
}

impl Display for ValueRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::U64(v) => Display::fmt(v, f),
            Self::I64(v) => Display::fmt(v, f),
            Self::U128(v) => Display::fmt(v, f),
            Self::I128(v) => Display::fmt(v, f),
            Self::F64(v) => Display::fmt(v, f),
            Self::Bool(v) => Display::fmt(v, f),
            Self::Char(v) => Display::fmt(v, f),
            Self::Str(v) => Display::fmt(v, f),
            Self::Bytes(v) => Display::fmt(&v.escape_ascii(), f),
            Self::Format(v) => Display::fmt(v, f),
            Self::Absent => f.write_str("(absent)"),
            Self::Opaque(name) => write!(f, "({name})"),
            Self::Failed => f.write_str("(failed)"),
            Self::Unknown => f.write_str("(unknown)"),
            Self::Unreadable => f.write_str("(unreadable)"),
        }
    }
}

impl Debug for ValueRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Display::fmt(self, f)
    }
}

/// Returns a slice from its words, which is empty if either is zero: an empty slice may have any
/// address, and C's may be null.
///
/// # Safety
/// If neither word is zero, they must be the address and the length of a slice that is alive for
/// `'a`.
#[expect(clippy::cast_possible_truncation, reason = "it was a `usize`")]
unsafe fn bytes<'a>(start: u64, len: u64) -> &'a [u8] {
    if start == 0 || len == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { slice::from_raw_parts(start as *const u8, len as usize) }
}

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
        const NAMES: [&str; 14] = [
            "u64", "i64", "u128", "i128", "f64", "bool", "char", "str", "bytes", "format", "cstr", "absent",
            "opaque", "failed",
        ];
        NAMES[self as usize - 1]
    }

    /// Returns the type with this encoding; `None` if this reader does not know it.
    #[inline]
    pub fn from_number(number: u64) -> Option<Self> {
        // `ALL` is in the order of the encoding, from 1; asserted below.
        let at = usize::try_from(number).ok()?.checked_sub(1)?;
        Self::ALL.get(at).copied()
    }
}

/// Serializes as its name.
#[cfg(feature = "serde")]
impl serde_core::Serialize for Type {
    fn serialize<S: serde_core::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

const _: () = {
    let mut at = 0;
    while at < Type::ALL.len() {
        assert!(Type::ALL[at] as usize == at + 1);
        at += 1;
    }
};

/// The beginning of a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TextStart<'a> {
    pub bytes: &'a [u8],
    /// Whether the text ends there.
    pub is_whole: bool,
}

impl<'a> TextStart<'a> {
    fn of(text: &'a [u8], most: usize) -> Self {
        Self { bytes: &text[..text.len().min(most)], is_whole: text.len() <= most }
    }
}

impl Value<'_> {
    /// Returns text of a known length, and bytes; `None` if the value is neither, or can't be read.
    #[inline(always)]
    pub fn slice(&self) -> Option<&[u8]> {
        let [low, high] = self.words;
        let is_slice =
            self.ty == Type::Str as u64 || (self.ty == Type::Bytes as u64 && of_c::can_read(self.words));
        // SAFETY: the words are the pointer and length of a slice that the value borrows.
        is_slice.then(|| unsafe { bytes(low, high) })
    }

    /// Returns at most this many bytes of text; `None` if it is another type, or unreadable.
    /// Reads one byte after them at most.
    pub fn text_start(&self, most: usize) -> Option<TextStart<'_>> {
        if let Some(text) = self.slice() {
            return Some(TextStart::of(text, most));
        }
        let low = self.words[0];
        match self.ty()? {
            Type::CStr if low == 0 => Some(TextStart::of(b"(null)", most)),
            Type::CStr => {
                // One more, which is the NUL of a text that ends there.
                // SAFETY: the word is the address of a string that the value borrows, or of none.
                let text = unsafe { of_c::text(low, most + 1) }?;
                Some(TextStart { bytes: &text[..text.len().min(most)], is_whole: text.len() <= most })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::passage::InMemory;
    use std::string::{String, ToString};

    fn value<T: Field + ?Sized>(field: &T) -> Value<'_> {
        super::value::<InMemory, T>(field)
    }

    fn shown(value: Value<'_>) -> String {
        value.get().to_string()
    }

    #[test]
    fn every_type_comes_back() {
        assert_eq!(shown(value(&255_u8)), "255");
        assert_eq!(shown(value(&-1_i8)), "-1");
        assert_eq!(shown(value(&i64::MIN)), i64::MIN.to_string());
        assert_eq!(shown(value(&u128::MAX)), u128::MAX.to_string());
        assert_eq!(shown(value(&i128::MIN)), i128::MIN.to_string());
        assert_eq!(shown(value(&1.5_f32)), "1.5");
        assert_eq!(shown(value(&true)), "true");
        assert_eq!(shown(value(&'é')), "é");
        assert_eq!(shown(value("text")), "text");
        assert_eq!(shown(value(&String::from("owned"))), "owned");
        assert_eq!(shown(value(b"a\0")), "a\\x00");
        assert_eq!(value(&1_u8).ty(), Some(Type::U64));
        assert_eq!(value(&7_i32).get().as_u64(), Some(7));
        assert_eq!(value(&-7_i32).get().as_u64(), None);
        assert_eq!(value(&u64::MAX).get().as_i64(), None);
        assert_eq!(value(&2.5).get().as_f64(), Some(2.5));
        assert_eq!(value("x").get().as_str(), Some("x"));
    }

    #[test]
    fn strings_of_c_are_text_or_bytes() {
        #[cfg(all(feature = "std", probe_backend = "patched"))]
        probe_patch::__runtime::os::guarded_read::prepare();
        let c_str = |address: *const core::ffi::c_char| Value {
            ty: Type::CStr as u64,
            words: [address as u64, 0],
            borrow: PhantomData,
        };
        assert_eq!(c_str(c"h\u{e9}".as_ptr()).get().as_str(), Some("h\u{e9}"));
        assert_eq!(c_str(core::ptr::null()).get().as_str(), Some("(null)"));
        assert!(matches!(c_str(c"h\xe9".as_ptr()).get(), ValueRef::Bytes(b"h\xe9")));
        assert_eq!(shown(c_str(c"h\xe9".as_ptr())), "h\\xe9");
        #[cfg(all(feature = "std", probe_backend = "patched"))]
        assert_eq!(shown(c_str(core::ptr::without_provenance(8))), "(unreadable)");
        let long = std::vec![b'x'; of_c::MOST + 10];
        assert_eq!(shown(c_str(long.as_ptr().cast())).len(), of_c::MOST);
    }

    #[test]
    fn an_empty_slice_may_have_any_address() {
        for words in [[0, 0], [0, 3], [1, 0], [u64::MAX, 0]] {
            let of = |ty: Type| Value { ty: ty as u64, words, borrow: PhantomData };
            assert!(matches!(of(Type::Bytes).get(), ValueRef::Bytes(b"")), "{words:?}");
            assert!(matches!(of(Type::Str).get(), ValueRef::Str("")), "{words:?}");
            assert!(matches!(of(Type::Opaque).get(), ValueRef::Opaque("")), "{words:?}");
        }
    }

    #[test]
    fn absent_opaque_and_failed_values() {
        assert_eq!(shown(absent::<InMemory>(())), "(absent)");
        assert_eq!(shown(opaque::<InMemory>("a::B")), "(a::B)");
        assert_eq!(shown(Value { ty: Type::Failed as u64, ..absent::<InMemory>(()) }), "(failed)");
        assert_eq!(shown(Value { ty: 99, ..absent::<InMemory>(()) }), "(unknown)");
    }
}
