//! The arguments of a USDT probe: values of a machine word or less, which lie in a register.
//!
//! A kernel's or debugger's tool reads an argument from the register that the note names, while the
//! thread stands on the probe's NOP. So an argument is a variable as it is, and the latent probe
//! computes nothing for it. Text and slices have two: the address and the length.
//!
//! Each argument has three operands, of which its type uses one or two. The others are
//! uninitialised, so the compiler takes any register for them and emits no instruction. `narrow`
//! exists because a value of 32 bits would need one to fill a register of 64.

use core::mem::MaybeUninit;

/// A type that a USDT probe can pass.
#[diagnostic::on_unimplemented(
    message = "a USDT probe can't pass a `{Self}`",
    label = "not an integer, a `bool`, a `char`, a pointer, a reference, a slice or text",
    note = "tools read arguments from registers: pass a part that fits there, such as `let len = rows.len();` and then `len`",
    note = "without `usdt`, a probe records any value"
)]
pub trait Argument {
    /// Its size in bytes, as a note has it: negative for a signed number.
    const SIZE: i32;
    /// Whether a length follows it, as another argument.
    const HAS_LENGTH: bool = false;

    /// Returns the value, if it has 64 bits.
    #[inline(always)]
    fn wide(&self) -> MaybeUninit<u64> {
        MaybeUninit::uninit()
    }

    /// Returns the value, if it has less.
    #[inline(always)]
    fn narrow(&self) -> MaybeUninit<u32> {
        MaybeUninit::uninit()
    }

    /// Returns the length, if it has one.
    #[inline(always)]
    fn second(&self) -> MaybeUninit<u64> {
        MaybeUninit::uninit()
    }
}

macro_rules! numbers {
    ($method:ident, $as:ident: $($ty:ident $size:literal),*) => { $(
        impl Argument for $ty {
            const SIZE: i32 = $size;

            #[inline(always)]
            #[allow(clippy::cast_sign_loss, clippy::cast_lossless, reason = "the bits are passed")]
            fn $method(&self) -> MaybeUninit<$as> {
                MaybeUninit::new(*self as $as)
            }
        }
    )* };
}

numbers! { wide, u64: u64 8, i64 -8, usize 8, isize -8 }
numbers! { narrow, u32: u8 1, i8 -1, u16 2, i16 -2, u32 4, i32 -4, bool 1, char 4 }

macro_rules! pointers {
    ($($ty:ty),*: $self:ident => $pointer:expr) => { $(
        impl<T> Argument for $ty {
            const SIZE: i32 = 8;

            #[inline(always)]
            fn wide(&$self) -> MaybeUninit<u64> {
                MaybeUninit::new($pointer.expose_provenance() as u64)
            }
        }
    )* };
}

pointers! { *const T, *mut T: self => self }
pointers! { &T, &mut T: self => (&raw const **self) }

macro_rules! slices {
    ($($ty:ty),*) => { $(
        impl<T> Argument for $ty {
            const SIZE: i32 = 8;
            const HAS_LENGTH: bool = true;

            #[inline(always)]
            fn wide(&self) -> MaybeUninit<u64> {
                MaybeUninit::new(self.as_ptr().expose_provenance() as u64)
            }

            #[inline(always)]
            fn second(&self) -> MaybeUninit<u64> {
                MaybeUninit::new(self.len() as u64)
            }
        }
    )* };
}

slices! { &[T], &mut [T] }

macro_rules! texts {
    ($($ty:ty),*) => { $(
        impl Argument for $ty {
            const SIZE: i32 = 8;
            const HAS_LENGTH: bool = true;

            #[inline(always)]
            fn wide(&self) -> MaybeUninit<u64> {
                self.as_bytes().wide()
            }

            #[inline(always)]
            fn second(&self) -> MaybeUninit<u64> {
                self.as_bytes().second()
            }
        }
    )* };
}

texts! { &str, &mut str }

/// Checks the type of an argument, where no note is emitted.
#[cfg(not(probe_backend = "patched"))]
pub fn usdt_argument<A: Argument>(_argument: &A) {}
