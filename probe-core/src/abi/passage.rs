//! How a field's value goes from its site to the stack, and the types that can.
//!
//! One or two values go word by word through registers ([`InRegisters`]); more go as an array in
//! memory ([`InMemory`]). They differ in the constants, the type and the unused word. The compiler
//! computes a constant for a register ahead of a loop, in the hot path, but a constant for memory
//! where it is stored.

// Safety: relies on instructions that write only their output register, and read at most the global
// offset table, which is constant; and on `value` alone making values that format themselves, since
// it states the meaning of their first word.
#![expect(unsafe_code, reason = "see above")]

use core::marker::PhantomData;

use super::formatted::{FormatFn, Sink};
use super::value::{Field, Type, Value};

/// The texts that sites themselves pass on, one after the other.
static TEXTS: [u8; 24] = *b"okerrsomenonereturnpanic";

/// How a function was left, as an offset in [`TEXTS`].
macro_rules! outcomes {
    ($($name:ident = $at:literal, $len:literal;)*) => { $(
        #[doc = concat!("`", stringify!($name), "`.")]
        #[inline(always)]
        pub fn $name<'a, P: Passage>() -> P::Out<'a> {
            P::text::<$at, $len>()
        }
    )* };
}

/// The values of the field `outcome`.
pub mod outcome {
    use super::Passage;

    outcomes! {
        ok = 0, 2;
        err = 2, 3;
        some = 5, 4;
        none = 9, 4;
        returned = 13, 6;
        panic = 19, 5;
    }
}

/// A formatter of a value.
pub trait Formatting {
    /// Writes the value at `data`; returns whether the sink took all of it.
    ///
    /// # Safety
    /// `data` must be the pointer that the implementation expects, and the sink must be alive.
    unsafe extern "C-unwind" fn format(data: *const (), sink: *mut Sink) -> bool;
}

/// A way in which a value's words are passed on.
pub trait Passage {
    /// The value that the site passes on.
    type Out<'a>;

    /// Passes a value of one word.
    fn one<'a, const TY: u64>(low: u64) -> Self::Out<'a>;

    /// Passes a value of two words.
    fn two<'a, const TY: u64>(low: u64, high: u64) -> Self::Out<'a>;

    /// Passes one of the texts of [`outcome`].
    fn text<'a, const AT: usize, const LEN: u64>() -> Self::Out<'a>;

    /// Passes a value that formats itself.
    fn formatted<'a, F: Formatting>(data: *const ()) -> Self::Out<'a>;
}

/// Passes a value as an element of an array.
#[derive(Debug)]
pub struct InMemory;

impl Passage for InMemory {
    type Out<'a> = Value<'a>;

    #[inline(always)]
    fn one<'a, const TY: u64>(low: u64) -> Value<'a> {
        Self::two::<TY>(low, 0)
    }

    #[inline(always)]
    fn two<'a, const TY: u64>(low: u64, high: u64) -> Value<'a> {
        Value { ty: TY, words: [low, high], borrow: PhantomData }
    }

    #[inline(always)]
    fn text<'a, const AT: usize, const LEN: u64>() -> Value<'a> {
        Self::two::<{ Type::Str as u64 }>((&raw const TEXTS).cast::<u8>().wrapping_add(AT) as u64, LEN)
    }

    #[inline(always)]
    fn formatted<'a, F: Formatting>(data: *const ()) -> Value<'a> {
        let format: FormatFn = F::format;
        Self::two::<{ Type::Format as u64 }>(data as u64, format as usize as u64)
    }
}

/// Passes a value as three words: the type, and two words that depend on it.
#[cfg(probe_backend = "patched")]
#[derive(Debug)]
pub struct InRegisters;

/// The words that [`InRegisters`] passes on.
#[cfg(probe_backend = "patched")]
#[derive(Debug)]
pub struct Words<'a>(pub(crate) [u64; 3], pub(crate) PhantomData<&'a ()>);

#[cfg(probe_backend = "patched")]
impl Passage for InRegisters {
    type Out<'a> = Words<'a>;

    #[inline(always)]
    fn one<'a, const TY: u64>(low: u64) -> Words<'a> {
        Self::two::<TY>(low, constant::<0>())
    }

    #[inline(always)]
    fn two<'a, const TY: u64>(low: u64, high: u64) -> Words<'a> {
        Words([constant::<TY>(), low, high], PhantomData)
    }

    #[inline(always)]
    fn text<'a, const AT: usize, const LEN: u64>() -> Words<'a> {
        Self::two::<{ Type::Str as u64 }>(text::<AT>(), constant::<LEN>())
    }

    #[inline(always)]
    fn formatted<'a, F: Formatting>(data: *const ()) -> Words<'a> {
        Self::two::<{ Type::Format as u64 }>(data as u64, format::<F>())
    }
}

/// Returns a constant that is computed at its use: the compiler can't see through the asm.
#[cfg(probe_backend = "patched")]
#[inline(always)]
fn constant<const VALUE: u64>() -> u64 {
    let value;
    // SAFETY: writes its output register and nothing else.
    unsafe {
        core::arch::asm!("mov {0:e}, {1}", out(reg) value, const VALUE, options(nomem, nostack, preserves_flags));
    }
    value
}

/// Returns the address of a text, computed at its use. It comes from the global offset table. The
/// linker replaces that load if it can. It can't in a shared Rust library, which exports the text,
/// nor in objects that import the text from there.
#[cfg(probe_backend = "patched")]
#[inline(always)]
fn text<const AT: usize>() -> u64 {
    let address: u64;
    // SAFETY: as in `constant`.
    unsafe {
        core::arch::asm!(
            "mov {0}, [rip + {1}@GOTPCREL]",
            "lea {0}, [{0} + {2}]",
            out(reg) address, sym TEXTS, const AT,
            options(nomem, nostack, preserves_flags),
        );
    }
    address
}

/// Returns the address of a function, as `text` does.
#[cfg(probe_backend = "patched")]
#[inline(always)]
fn format<F: Formatting>() -> u64 {
    let address;
    // SAFETY: as in `constant`.
    unsafe {
        core::arch::asm!(
            "mov {0}, [rip + {1}@GOTPCREL]", out(reg) address, sym F::format,
            options(nomem, nostack, preserves_flags),
        );
    }
    address
}

macro_rules! one_word {
    ($($ty:ty, $tag:ident, $this:ident => $low:expr;)*) => { $(
        impl Field for $ty {
            #[inline(always)]
            #[allow(clippy::cast_lossless, clippy::cast_sign_loss)]
            fn pass<P: Passage>(&self) -> P::Out<'_> {
                let $this = self;
                P::one::<{ Type::$tag as u64 }>($low as u64)
            }
        }
    )* };
}

one_word! {
    u8, U64, v => *v;
    u16, U64, v => *v;
    u32, U64, v => *v;
    u64, U64, v => *v;
    usize, U64, v => *v;
    i8, I64, v => *v;
    i16, I64, v => *v;
    i32, I64, v => *v;
    i64, I64, v => *v;
    isize, I64, v => *v;
    f32, F64, v => f64::from(*v).to_bits();
    f64, F64, v => v.to_bits();
    bool, Bool, v => *v;
    char, Char, v => *v;
}

macro_rules! two_words {
    ($($ty:ty, $tag:ident, $this:ident => $low:expr, $high:expr;)*) => { $(
        impl Field for $ty {
            #[inline(always)]
            #[allow(clippy::cast_sign_loss, clippy::cast_possible_truncation)]
            fn pass<P: Passage>(&self) -> P::Out<'_> {
                let $this = self;
                P::two::<{ Type::$tag as u64 }>($low as u64, $high as u64)
            }
        }
    )* };
}

two_words! {
    u128, U128, v => *v, *v >> 64;
    i128, I128, v => *v, *v >> 64;
    str, Str, v => v.as_ptr(), v.len();
    [u8], Bytes, v => v.as_ptr(), v.len();
}

impl<const N: usize> Field for [u8; N] {
    #[inline(always)]
    fn pass<P: Passage>(&self) -> P::Out<'_> {
        self.as_slice().pass::<P>()
    }
}

impl<T: Field + ?Sized> Field for &T {
    #[inline(always)]
    fn pass<P: Passage>(&self) -> P::Out<'_> {
        (**self).pass::<P>()
    }
}

impl<T: Field + ?Sized> Field for &mut T {
    #[inline(always)]
    fn pass<P: Passage>(&self) -> P::Out<'_> {
        (**self).pass::<P>()
    }
}

#[cfg(feature = "std")]
impl Field for String {
    #[inline(always)]
    fn pass<P: Passage>(&self) -> P::Out<'_> {
        self.as_str().pass::<P>()
    }
}

#[cfg(feature = "std")]
impl Field for Vec<u8> {
    #[inline(always)]
    fn pass<P: Passage>(&self) -> P::Out<'_> {
        self.as_slice().pass::<P>()
    }
}
