//! `#[probe]` on blocks: generic, conditional, from macros, in functions.

use probe_runtime::probe;

struct Wrapper<'a, T: ?Sized, const N: usize = 3>(&'a [u8; N], std::marker::PhantomData<T>);

#[probe]
impl<'a, T, const N: usize> Wrapper<'a, T, N>
where
    T: ?Sized + Fn(u8) -> u8,
    [(); N]: Sized,
{
    pub const LEN: usize = { N };

    fn sum<const M: usize>(&self, more: [u8; M]) -> usize
    where
        [(); { 1 + 2 }]: Sized,
    {
        #![allow(unused_mut)]
        let mut sum = Self::LEN;
        probe!("sum", sum, len = self.0.len());
        sum + more.len()
    }

    fn get(&self) -> &'a [u8; N] {
        self.0
    }

    const fn constant() -> usize {
        const INNER: usize = 1;
        INNER + Self::LEN
    }

    #[allow(dead_code)]
    unsafe extern "C" fn foreign(x: *const u8) -> u8 {
        let x = x;
        // SAFETY: never called.
        unsafe { *x }
    }

    #[cfg(any())]
    fn absent() -> Absent {
        todo!()
    }

    #[cfg(all())]
    fn present() -> impl Sized + use<T, N> {
        let x = 1_u8;
        x
    }
}

const FOUR: usize = Wrapper::<fn(u8) -> u8, 3>::constant();

macro_rules! methods {
    ($(#[$meta:meta])* $vis:vis $name:ident: $ty:ty = $body:block $($item:item)*) => {
        struct Made;

        #[probe]
        impl Made {
            $(#[$meta])*
            $vis fn $name(&self) -> $ty $body

            $($item)*
        }
    };
}

methods! {
    /// Documented.
    pub(crate) first: u8 = { let x = 1; x }
    #[inline] fn second(&self) -> u8 { self.first() }
    #[probe(skip)] fn third(&self) -> u8 { self.first() + self.second() }
}

macro_rules! for_types {
    ($($ty:ty),*) => { $(
        #[probe]
        impl Twice for $ty {
            fn twice(self) -> Self {
                let this = self;
                this
            }
        }
    )* };
}

trait Twice {
    fn twice(self) -> Self;
}

for_types!(u8, &'static [u8], (u8, [u8; 2]), Box<fn(u8) -> u8>);

#[probe]
pub(crate) mod outer {
    #![allow(dead_code)]
    //! Documented.

    use std::fmt::{self, Debug};

    pub(crate) static ONE: [fn() -> u8; { 1 + 0 }] = [one];

    type Alias<T> = Vec<T>;

    fn one() -> u8 {
        let x = 1;
        x
    }

    pub(crate) mod inner {
        use super::one;

        pub(crate) fn two() -> u8 {
            probe!("two");
            let x = one();
            x + 1
        }

        #[cfg(any())]
        impl super::Absent {
            fn bodiless();
            fn f() {}
        }
    }

    #[cfg(any())]
    trait Absent {
        fn absent(&self, x: NoSuchType);
    }

    macro_rules! local {
        () => {
            fn from_macro() -> u8 {
                1
            }
        };
    }
    local!();

    #[derive(Default)]
    pub(crate) struct Unit;

    impl Debug for Unit {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            let x = from_macro();
            write!(f, "{x}")
        }
    }

    unsafe extern "C" {
        fn strlen(text: *const std::ffi::c_char) -> usize;
    }

    #[unsafe(naked)]
    #[cfg(target_arch = "x86_64")]
    pub(crate) extern "C" fn bare() {
        core::arch::naked_asm!("ret")
    }
}

#[probe]
trait WithDefaults: Sized {
    type Assoc: Default;
    const K: usize = { 3 };

    fn required(&self) -> Self::Assoc;

    fn provided(&self) -> (Self::Assoc, usize) {
        let assoc = self.required();
        (assoc, Self::K)
    }
}

impl WithDefaults for u8 {
    type Assoc = u16;

    #[probe]
    fn required(&self) -> u16 {
        u16::from(*self)
    }
}

#[probe(skip)]
fn alone() -> u8 {
    probe!("in-alone");
    1
}

#[probe(skip)]
struct NotAFunction;

fn main() {
    let wrapper = Wrapper::<fn(u8) -> u8, 3>(&[1, 2, 3], std::marker::PhantomData);
    assert_eq!((wrapper.sum([0; 2]), *wrapper.get(), FOUR), (5, [1, 2, 3], 4));
    let _ = Wrapper::<fn(u8) -> u8, 3>::present();
    assert_eq!((Made.first(), Made.second(), Made.third()), (1, 1, 2));
    assert_eq!((2_u8.twice(), (1, [2, 3]).twice().0, b"x"[..].twice()), (2, 1, &b"x"[..]));
    assert_eq!((outer::ONE[0](), outer::inner::two(), format!("{:?}", outer::Unit)), (1, 2, "1".to_owned()));
    assert_eq!((3_u8.provided(), alone()), ((3, 3), 1));
    #[cfg(target_arch = "x86_64")]
    outer::bare();

    struct Local;

    #[probe]
    impl Local {
        fn method(&self) -> u8 {
            let x = 1;
            x
        }
    }
    assert_eq!(Local.method(), 1);
    let _ = NotAFunction;
}
