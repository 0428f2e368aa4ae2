//! A field's value as it crosses from a site to a consumer.
//!
//! Life: made on the stack of the site's cold block, borrowed by the consumers, gone when the hit
//! returns. Cost: three words a field; nothing is formatted or copied unless a consumer asks for it.

// Safety: relies on a `Value` being made by this module's functions, so that its words are what its type
// says, and on its lifetime, which keeps what it borrows alive.
#![expect(unsafe_code, reason = "see above")]

use core::fmt::{self, Debug, Display, Write};
use core::marker::PhantomData;
use core::slice;

/// The type of a field's value.
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
    /// Something that formats itself, from `field = ?expr` or `field = %expr`.
    Format = 10,
}

impl Type {
    /// All types, in the order of their encoding.
    pub const ALL: [Self; 10] = [
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
    ];
}

/// One field's value: a type and two words.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Value<'a> {
    ty: u64,
    words: [u64; 2],
    borrow: PhantomData<&'a ()>,
}

const _: () = assert!(size_of::<Value<'_>>() == 24);

/// A field's value, as a consumer sees it.
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
    /// Something that formats itself.
    Format(&'a dyn Display),
    /// A type that this reader does not know: from a newer site.
    Unknown,
}

/// Where a [`Type::Format`] value writes to. It crosses from one compiler's code to another's (a plugin's,
/// say), so it is a C interface.
#[repr(C)]
pub struct Sink {
    /// Takes UTF-8 text; returns whether it wants more.
    pub write: unsafe extern "C" fn(sink: *mut Sink, text: *const u8, len: usize) -> bool,
}

type FormatFn = unsafe extern "C" fn(data: *const (), sink: *mut Sink) -> bool;

/// What may be a field as it is: integers, floats, `bool`, `char`, text and bytes.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be a probe's field as it is",
    label = "neither a number, `bool`, `char`, text nor bytes",
    note = "write `field = ?expr` to record it with `Debug`, or `field = %expr` with `Display`"
)]
pub trait Field {
    /// The value that a consumer sees.
    fn value(&self) -> Value<'_>;
}

/// The value of `field = expr`.
#[inline(always)]
pub fn value<T: Field + ?Sized>(field: &T) -> Value<'_> {
    field.value()
}

/// The value of `field = ?expr`.
#[inline(always)]
pub fn debug<'a, T: Debug + ?Sized>(field: &'a &'a T) -> Value<'a> {
    unsafe extern "C" fn format<T: Debug + ?Sized>(data: *const (), sink: *mut Sink) -> bool {
        // SAFETY: `data` is the reference that `debug` took, alive for the value's lifetime.
        let field = unsafe { *data.cast::<&T>() };
        write!(Writer(sink), "{field:?}").is_ok()
    }
    Value::formatted((&raw const *field).cast(), format::<T>)
}

/// The value of `field = %expr`.
#[inline(always)]
pub fn display<'a, T: Display + ?Sized>(field: &'a &'a T) -> Value<'a> {
    unsafe extern "C" fn format<T: Display + ?Sized>(data: *const (), sink: *mut Sink) -> bool {
        // SAFETY: `data` is the reference that `display` took, alive for the value's lifetime.
        let field = unsafe { *data.cast::<&T>() };
        write!(Writer(sink), "{field}").is_ok()
    }
    Value::formatted((&raw const *field).cast(), format::<T>)
}

impl Value<'_> {
    #[inline(always)]
    fn new<const TY: u64>(low: u64, high: u64) -> Self {
        Self { ty: constant::<TY>(), words: [low, high], borrow: PhantomData }
    }

    #[inline(always)]
    fn formatted(data: *const (), format: FormatFn) -> Self {
        Self::new::<{ Type::Format as u64 }>(data as u64, format as usize as u64)
    }

    /// The value's three words: its type, and the two that depend on it.
    #[inline(always)]
    pub const fn into_words(self) -> [u64; 3] {
        [self.ty, self.words[0], self.words[1]]
    }

    /// The value's type; `None` for one that this reader does not know.
    pub fn ty(&self) -> Option<Type> {
        Type::ALL.into_iter().find(|ty| *ty as u64 == self.ty)
    }

    /// The value itself.
    #[expect(
        clippy::cast_possible_wrap,
        clippy::cast_possible_truncation,
        reason = "the words are what `ty` says"
    )]
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
            // SAFETY: the words are the pointer and length of a slice borrowed for 'a.
            Type::Bytes => ValueRef::Bytes(unsafe { slice::from_raw_parts(low as *const u8, high as usize) }),
            // SAFETY: as above, and the slice was a `str`.
            Type::Str => ValueRef::Str(unsafe {
                str::from_utf8_unchecked(slice::from_raw_parts(low as *const u8, high as usize))
            }),
            Type::Format => ValueRef::Format(self),
        }
    }
}

impl<'a> ValueRef<'a> {
    /// The value as an unsigned number, if it is an integer that is one.
    pub fn as_u64(self) -> Option<u64> {
        match self {
            Self::U64(value) => Some(value),
            Self::I64(value) => value.try_into().ok(),
            Self::U128(value) => value.try_into().ok(),
            Self::I128(value) => value.try_into().ok(),
            _ => None,
        }
    }

    /// The value as a signed number, if it is an integer that fits.
    pub fn as_i64(self) -> Option<i64> {
        match self {
            Self::U64(value) => value.try_into().ok(),
            Self::I64(value) => Some(value),
            Self::U128(value) => value.try_into().ok(),
            Self::I128(value) => value.try_into().ok(),
            _ => None,
        }
    }

    /// The value as a floating-point number, if it is one.
    pub fn as_f64(self) -> Option<f64> {
        if let Self::F64(value) = self { Some(value) } else { None }
    }

    /// The value as text, if it is text.
    pub fn as_str(self) -> Option<&'a str> {
        if let Self::Str(value) = self { Some(value) } else { None }
    }
}

impl Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.ty() != Some(Type::Format) {
            return Display::fmt(&self.get(), f);
        }
        // SAFETY: the second word of a `Format` value is a `FormatFn`.
        let format = unsafe { core::mem::transmute::<*const (), FormatFn>(self.words[1] as *const ()) };
        let mut sink = FormatterSink { sink: Sink { write: FormatterSink::write }, out: f };
        // SAFETY: the first word is what `format` was made for; the sink is alive for the call.
        let complete = unsafe { format(self.words[0] as *const (), (&raw mut sink).cast()) };
        if complete { Ok(()) } else { Err(fmt::Error) }
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
            Self::Unknown => f.write_str("(unknown)"),
        }
    }
}

impl Debug for ValueRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Display::fmt(self, f)
    }
}

/// The site's end of a [`Sink`]: turns `fmt::Write` into the C interface.
struct Writer(*mut Sink);

impl Write for Writer {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // SAFETY: the sink is alive for the call that made this writer.
        if unsafe { ((*self.0).write)(self.0, text.as_ptr(), text.len()) } { Ok(()) } else { Err(fmt::Error) }
    }
}

/// The consumer's end of a [`Sink`].
#[repr(C)]
struct FormatterSink<'f, 'o> {
    sink: Sink,
    out: &'f mut fmt::Formatter<'o>,
}

impl FormatterSink<'_, '_> {
    unsafe extern "C" fn write(sink: *mut Sink, text: *const u8, len: usize) -> bool {
        // SAFETY: `Display for Value` passed a `FormatterSink`, of which `sink` is the first field.
        let this = unsafe { &mut *sink.cast::<Self>() };
        // SAFETY: a writer passes a `str`'s parts.
        this.out.write_str(unsafe { str::from_utf8_unchecked(slice::from_raw_parts(text, len)) }).is_ok()
    }
}

/// A constant that is made where it is used, that is in the cold block: the compiler would move one that it
/// sees through out of a loop, into the hot path.
#[inline(always)]
fn constant<const VALUE: u64>() -> u64 {
    #[cfg(probe_backend = "x86_64")]
    {
        let value;
        // SAFETY: writes its output register and nothing else.
        unsafe {
            core::arch::asm!("mov {0:e}, {1}", out(reg) value, const VALUE, options(nomem, nostack, preserves_flags));
        }
        value
    }
    #[cfg(not(probe_backend = "x86_64"))]
    VALUE
}

macro_rules! fields {
    ($($ty:ty, $tag:ident, $this:ident => $low:expr, $high:expr;)*) => { $(
        impl Field for $ty {
            #[inline(always)]
            #[allow(clippy::cast_lossless, clippy::cast_sign_loss, clippy::cast_possible_truncation)]
            fn value(&self) -> Value<'_> {
                let $this = self;
                Value::new::<{ Type::$tag as u64 }>($low as u64, $high as u64)
            }
        }
    )* };
}

fields! {
    u8, U64, v => *v, constant::<0>();
    u16, U64, v => *v, constant::<0>();
    u32, U64, v => *v, constant::<0>();
    u64, U64, v => *v, constant::<0>();
    usize, U64, v => *v, constant::<0>();
    i8, I64, v => *v, constant::<0>();
    i16, I64, v => *v, constant::<0>();
    i32, I64, v => *v, constant::<0>();
    i64, I64, v => *v, constant::<0>();
    isize, I64, v => *v, constant::<0>();
    u128, U128, v => *v, *v >> 64;
    i128, I128, v => *v, *v >> 64;
    f32, F64, v => f64::from(*v).to_bits(), constant::<0>();
    f64, F64, v => v.to_bits(), constant::<0>();
    bool, Bool, v => *v, constant::<0>();
    char, Char, v => *v, constant::<0>();
    str, Str, v => v.as_ptr(), v.len();
    [u8], Bytes, v => v.as_ptr(), v.len();
}

impl<const N: usize> Field for [u8; N] {
    #[inline(always)]
    fn value(&self) -> Value<'_> {
        self.as_slice().value()
    }
}

impl<T: Field + ?Sized> Field for &T {
    #[inline(always)]
    fn value(&self) -> Value<'_> {
        (**self).value()
    }
}

impl<T: Field + ?Sized> Field for &mut T {
    #[inline(always)]
    fn value(&self) -> Value<'_> {
        (**self).value()
    }
}

#[cfg(feature = "std")]
impl Field for String {
    #[inline(always)]
    fn value(&self) -> Value<'_> {
        self.as_str().value()
    }
}

#[cfg(feature = "std")]
impl Field for Vec<u8> {
    #[inline(always)]
    fn value(&self) -> Value<'_> {
        self.as_slice().value()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::{String, ToString};

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
    fn formatted_values_cross_the_c_interface() {
        assert_eq!(shown(debug(&&Some("x"))), "Some(\"x\")");
        assert_eq!(shown(display(&&"x")), "x");
        let slice: &[u32] = &[1, 2];
        assert_eq!(shown(debug(&slice)), "[1, 2]");
    }
}
