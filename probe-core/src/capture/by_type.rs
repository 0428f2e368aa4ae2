//! Captures values of any type without a bound on it: for `args(*)` and `ret`.
//!
//! The compiler decides how to record a value where the function is compiled, generic or not. It
//! looks for the method [`capture`](Capturing::capture) here first. Then it follows `Deref` to
//! types that demand less of the value. For a generic parameter it knows only the function's own
//! bounds, so all instances record it in the same way.

use core::any::type_name;
use core::fmt::Debug;

use super::kept::Kept;
use crate::abi::Field;
use crate::abi::passage::{Passage, outcome};
use crate::abi::value::{opaque, value};

/// The first choice: a [`Field`].
#[derive(Debug)]
pub struct Capturing<'a, T: ?Sized>(Copied<'a, T>);

/// The second choice: `Debug`, of a copy.
#[derive(Debug)]
pub struct Copied<'a, T: ?Sized>(Reborrowed<'a, T>);

/// The third choice: `Debug` of the target of a `&mut`.
#[derive(Debug)]
pub struct Reborrowed<'a, T: ?Sized>(Borrowed<'a, T>);

/// The fourth choice: `Debug`.
#[derive(Debug)]
pub struct Borrowed<'a, T: ?Sized>(Opaque<'a, T>);

/// The last choice: the type's name.
#[derive(Debug)]
pub struct Opaque<'a, T: ?Sized>(&'a T);

impl<'a, T: ?Sized> Capturing<'a, T> {
    /// Wraps a borrowed value.
    #[inline(always)]
    pub fn new(value: &'a T) -> Self {
        Self(Copied(Reborrowed(Borrowed(Opaque(value)))))
    }
}

next!(Capturing => Copied, Copied => Reborrowed, Reborrowed => Borrowed, Borrowed => Opaque);

impl<'a, T: Field + ?Sized> Capturing<'a, T> {
    /// Captures the value as it is.
    #[inline(always)]
    pub fn capture(&self) -> AsField<'a, T> {
        AsField(self.0.0.0.0.0)
    }
}

impl<'a, T: Debug + Copy> Copied<'a, T> {
    /// Captures the value as `Debug` formats it.
    #[inline(always)]
    pub fn capture(&self) -> AsDebug<'a, T> {
        AsDebug(Kept::new(self.0.0.0.0))
    }
}

impl<'a, T: Debug + ?Sized> Reborrowed<'a, &'a mut T> {
    /// Captures the target of the reference as `Debug` formats it.
    #[inline(always)]
    pub fn capture(&self) -> AsDebug<'a, &'a T> {
        let it: &'a &'a mut T = self.0.0.0;
        AsDebug(Kept::of(&**it))
    }
}

impl<'a, T: Debug + ?Sized> Borrowed<'a, T> {
    /// Captures the value as `Debug` formats it.
    #[inline(always)]
    pub fn capture(&self) -> AsDebug<'a, &'a T> {
        AsDebug(Kept::of(self.0.0))
    }
}

#[expect(clippy::unused_self, reason = "the last choice of a search for a method")]
impl<T: ?Sized> Opaque<'_, T> {
    /// Captures the name of the value's type.
    #[inline(always)]
    pub fn capture(&self) -> AsName {
        AsName(type_name::<T>())
    }
}

/// A captured value.
pub trait Captured {
    /// Passes the value on; it borrows from this.
    fn pass<P: Passage>(&self) -> P::Out<'_>;
}

/// A value that [`Capturing`] captured.
#[derive(Debug)]
pub struct AsField<'a, T: ?Sized>(&'a T);

/// A value that [`Copied`], [`Reborrowed`] or [`Borrowed`] captured.
#[derive(Debug)]
pub struct AsDebug<'a, T>(Kept<'a, T>);

/// A value that [`Opaque`] captured.
#[derive(Debug)]
pub struct AsName(&'static str);

impl<T: Field + ?Sized> Captured for AsField<'_, T> {
    #[inline(always)]
    fn pass<P: Passage>(&self) -> P::Out<'_> {
        value::<P, T>(self.0)
    }
}

impl<T: Debug + Copy> Captured for AsDebug<'_, T> {
    #[inline(always)]
    fn pass<P: Passage>(&self) -> P::Out<'_> {
        self.0.debug::<P>()
    }
}

impl Captured for AsName {
    #[inline(always)]
    fn pass<P: Passage>(&self) -> P::Out<'_> {
        opaque::<P>(self.0)
    }
}

/// The result of a function. [`pass`](Self::pass) tells `ok` from `err` and `some` from `none`, and
/// passes `return` for other types (`Other`).
#[derive(Debug)]
pub struct Returned<'a, T: ?Sized>(Other<'a, T>);

/// A result of another type.
#[derive(Debug)]
pub struct Other<'a, T: ?Sized>(&'a T);

impl<'a, T: ?Sized> Returned<'a, T> {
    /// Wraps a result.
    #[inline(always)]
    pub fn new(result: &'a T) -> Self {
        Self(Other(result))
    }
}

next!(Returned => Other);

impl<T, E> Returned<'_, Result<T, E>> {
    /// Passes `ok` or `err`.
    #[inline(always)]
    pub fn pass<P: Passage>(&self) -> P::Out<'static> {
        if self.0.0.is_ok() { outcome::ok::<P>() } else { outcome::err::<P>() }
    }
}

impl<T> Returned<'_, Option<T>> {
    /// Passes `some` or `none`.
    #[inline(always)]
    pub fn pass<P: Passage>(&self) -> P::Out<'static> {
        if self.0.0.is_some() { outcome::some::<P>() } else { outcome::none::<P>() }
    }
}

#[expect(clippy::unused_self, reason = "the last choice of a search for a method")]
impl<T: ?Sized> Other<'_, T> {
    /// Passes `return`.
    #[inline(always)]
    pub fn pass<P: Passage>(&self) -> P::Out<'static> {
        outcome::returned::<P>()
    }
}

#[cfg(test)]
mod tests {
    use std::string::{String, ToString};
    use std::vec::Vec;

    use super::*;
    use crate::abi::passage::InMemory;
    use crate::abi::{Type, ValueRef};

    struct Plain;

    macro_rules! captured {
        ($value:expr) => {{
            let value = $value;
            let captured = Capturing::new(&value).capture();
            let passed = captured.pass::<InMemory>();
            (passed.ty().unwrap(), passed.get().to_string())
        }};
    }

    fn unbounded<T>(value: T) -> (Type, String) {
        captured!(value)
    }

    fn shown<T: Debug>(value: T) -> (Type, String) {
        captured!(value)
    }

    fn field<T: Field + Debug>(value: T) -> (Type, String) {
        captured!(value)
    }

    #[test]
    fn the_type_decides() {
        assert_eq!(captured!(7_u8), (Type::U64, "7".into()));
        assert_eq!(captured!("text"), (Type::Str, "text".into()));
        assert_eq!(captured!(&mut String::from("text")), (Type::Str, "text".into()));
        assert_eq!(captured!(Some(7)), (Type::Format, "Some(7)".into()));
        assert_eq!(captured!(Vec::from([1_u32, 2])), (Type::Format, "[1, 2]".into()));
        assert_eq!(captured!(&mut Some(7)), (Type::Format, "Some(7)".into()));
        assert_eq!(captured!([7_u64; 9]).1, "[7, 7, 7, 7, 7, 7, 7, 7, 7]");
        let name = type_name::<Plain>();
        assert_eq!(captured!(Plain), (Type::Opaque, std::format!("({name})")));
        assert_eq!(captured!(&Plain), (Type::Opaque, std::format!("(&{name})")));
        assert_eq!(captured!(|| 1).0, Type::Opaque);
    }

    #[test]
    fn the_bounds_of_a_type_parameter_decide() {
        assert_eq!(unbounded(7_u8), (Type::Opaque, "(u8)".into()));
        assert_eq!(shown(7_u8), (Type::Format, "7".into()));
        assert_eq!(field(7_u8), (Type::U64, "7".into()));
    }

    #[test]
    fn outcomes() {
        macro_rules! outcome {
            ($value:expr) => {
                Returned::new(&$value).pass::<InMemory>().get().as_str().unwrap()
            };
        }
        assert_eq!(outcome!(Ok::<u8, Plain>(1)), "ok");
        assert_eq!(outcome!(Err::<Plain, u8>(1)), "err");
        assert_eq!(outcome!(Some(Plain)), "some");
        assert_eq!(outcome!(None::<Plain>), "none");
        assert_eq!(outcome!(Plain), "return");
        assert_eq!(outcome!(&Some(1)), "return");
        assert_eq!(outcome::panic::<InMemory>().get().as_str(), Some("panic"));
    }

    #[test]
    fn the_name_is_the_value() {
        let captured = Capturing::new(&Plain).capture();
        let value = captured.pass::<InMemory>();
        let ValueRef::Opaque(name) = value.get() else { panic!("not opaque") };
        assert_eq!(name, type_name::<Plain>());
    }
}
