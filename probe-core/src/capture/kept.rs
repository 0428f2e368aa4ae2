//! Copies of small values, made in the cold block.
//!
//! A value is formatted through its address. A variable whose address leaves the function must lie
//! in memory on every path to the site, the hot path included; a copy does not have this effect. So
//! a small value that is `Copy` is copied first. A function's result that is not `Copy` is moved,
//! and moved back.

// Safety: relies on a value being read only once while it is kept, and on being written back before
// any other code looks at it: its owner is borrowed mutably meanwhile.
#![expect(unsafe_code, reason = "see above")]

use core::fmt::{Debug, Display};
use core::mem::MaybeUninit;
use core::ops::{Deref, DerefMut};
use core::ptr;

use crate::abi::passage::Passage;
use crate::abi::value::{Field, absent};

/// Whether the compiler keeps the parts of a copy in registers: up to about this size.
const fn is_copied<T>() -> bool {
    size_of::<T>() <= 64
}

/// Whether functions return the value in registers: up to two.
const fn is_moved<T>() -> bool {
    size_of::<T>() <= 2 * size_of::<usize>()
}

/// A value that is about to be formatted: [`keep`](Self::keep) copies it if it is `Copy`; else
/// `Borrowing::keep` borrows it. The compiler chooses while it looks for the method: it passes over
/// a type whose bound does not hold.
#[derive(Debug)]
pub struct Keeping<'a, T: ?Sized>(Borrowing<'a, T>);

/// The second choice of [`Keeping`].
#[derive(Debug)]
pub struct Borrowing<'a, T: ?Sized>(&'a T);

/// Wraps the value of `field = ?expr`.
#[inline(always)]
pub fn shown_as_debug<T: Debug + ?Sized>(field: &T) -> Keeping<'_, T> {
    Keeping(Borrowing(field))
}

/// Wraps the value of `field = %expr`.
#[inline(always)]
pub fn shown_as_display<T: Display + ?Sized>(field: &T) -> Keeping<'_, T> {
    Keeping(Borrowing(field))
}

impl<'a, T: Copy> Keeping<'a, T> {
    /// Copies the value if it is small.
    #[inline(always)]
    pub fn keep(&self) -> Kept<'a, T> {
        Kept::new(self.0.0)
    }
}

next!(Keeping => Borrowing, Resulting => Uncopied);

impl<'a, T: ?Sized> Borrowing<'a, T> {
    /// Keeps the reference.
    #[inline(always)]
    pub fn keep(&self) -> Kept<'a, &'a T> {
        Kept::of(self.0)
    }
}

/// A value that can be copied, or a copy of it.
#[derive(Debug)]
pub struct Kept<'a, T> {
    /// `None` if `copy` is initialized.
    original: Option<&'a T>,
    copy: MaybeUninit<T>,
}

impl<'a, T: Copy> Kept<'a, T> {
    #[inline(always)]
    pub(super) fn new(original: &'a T) -> Self {
        if is_copied::<T>() {
            Self { original: None, copy: MaybeUninit::new(*original) }
        } else {
            Self { original: Some(original), copy: MaybeUninit::uninit() }
        }
    }

    /// Keeps a value that is stored nowhere else.
    #[inline(always)]
    pub(super) fn of(value: T) -> Self {
        Self { original: None, copy: MaybeUninit::new(value) }
    }

    /// Returns the value.
    #[inline(always)]
    pub fn get(&self) -> &T {
        match self.original {
            Some(original) => original,
            // SAFETY: without the original there is a copy.
            None => unsafe { self.copy.assume_init_ref() },
        }
    }
}

impl<T> Deref for Kept<'_, T> {
    type Target = Refused;

    #[inline(always)]
    fn deref(&self) -> &Refused {
        &Refused
    }
}

/// The type that the compiler finds where a field can't be recorded in the requested way. By then
/// it has reported the error at the field; with this type it reports no further ones.
#[derive(Debug)]
pub struct Refused;

#[expect(clippy::unused_self, reason = "found as methods")]
impl Refused {
    /// Never called.
    pub fn value<'a, P: Passage>(&self) -> P::Out<'a> {
        absent::<P>(())
    }

    /// Never called.
    pub fn debug<'a, P: Passage>(&self) -> P::Out<'a> {
        absent::<P>(())
    }

    /// Never called.
    pub fn display<'a, P: Passage>(&self) -> P::Out<'a> {
        absent::<P>(())
    }
}

/// The value of `field = expr`.
#[derive(Debug)]
pub struct Plain<'a, T: ?Sized>(&'a T);

/// Wraps the value of `field = expr`.
#[inline(always)]
pub fn shown_as_it_is<T: Field + ?Sized>(field: &T) -> Plain<'_, T> {
    Plain(field)
}

impl<'a, T: Field + ?Sized> Plain<'a, T> {
    /// Passes the value.
    #[inline(always)]
    pub fn value<P: Passage>(&self) -> P::Out<'a> {
        self.0.pass::<P>()
    }
}

impl<T: ?Sized> Deref for Plain<'_, T> {
    type Target = Refused;

    #[inline(always)]
    fn deref(&self) -> &Refused {
        &Refused
    }
}

/// The result of a function at its exit: [`keep`](Self::keep) copies it if it can be copied, else
/// (`Uncopied::keep`) moves it.
#[derive(Debug)]
pub struct Resulting<'a, T: ?Sized>(Uncopied<'a, T>);

/// The second choice of [`Resulting`].
#[derive(Debug)]
pub struct Uncopied<'a, T: ?Sized>(&'a mut T);

impl<'a, T> Resulting<'a, T> {
    /// Wraps the variable that holds the result.
    #[inline(always)]
    pub fn new(place: &'a mut T) -> Self {
        Self(Uncopied(place))
    }
}

// `Debug` keeps futures out: while the compiler looks for the method, it does not know whether a
// future is `Copy`.
impl<T: Copy + Debug> Resulting<'_, T> {
    /// Copies the result if it is small.
    #[inline(always)]
    pub fn keep(&self) -> Kept<'_, T> {
        Kept::new(self.0.0)
    }
}

impl<T> DerefMut for Resulting<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl<T> Uncopied<'_, T> {
    /// Moves the result if it is small.
    #[inline(always)]
    pub fn keep(&mut self) -> Moved<'_, T> {
        Moved::new(self.0)
    }
}

/// The result of a function, moved out of its variable while an exit's fields are made of it.
/// Dropping this moves the result back.
#[derive(Debug)]
pub struct Moved<'a, T> {
    place: &'a mut T,
    moved: MaybeUninit<T>,
}

impl<'a, T> Moved<'a, T> {
    #[inline(always)]
    fn new(place: &'a mut T) -> Self {
        let moved = if is_moved::<T>() {
            // SAFETY: the place is not read until `drop` has written the value back.
            MaybeUninit::new(unsafe { ptr::read(place) })
        } else {
            MaybeUninit::uninit()
        };
        Self { place, moved }
    }

    /// Returns the result.
    #[inline(always)]
    pub fn get(&self) -> &T {
        if is_moved::<T>() {
            // SAFETY: `new` moved it here.
            unsafe { self.moved.assume_init_ref() }
        } else {
            self.place
        }
    }
}

impl<T> Drop for Moved<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        if is_moved::<T>() {
            // SAFETY: `new` moved it from there, and this is its only copy.
            unsafe { ptr::write(self.place, self.moved.assume_init_read()) };
        }
    }
}
