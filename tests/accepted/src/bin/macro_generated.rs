//! `#[probe]` in a macro, on parts that came as fragments.

use probe_runtime::probe;

macro_rules! by_parts {
    ($(#[$meta:meta])* $vis:vis fn $name:ident($arg:ident: $ty:ty) -> $out:ty $body:block) => {
        #[probe]
        $(#[$meta])*
        $vis fn $name($arg: $ty) -> $out $body
    };
}

macro_rules! whole {
    ($item:item) => {
        #[probe]
        $item
    };
}

macro_rules! named {
    ($name:literal, $function:ident) => {
        #[probe(name = $name)]
        fn $function(n: u32) -> u32 {
            probe!($name, n);
            n + 3
        }
    };
}

by_parts! {
    /// Doc.
    #[inline]
    pub(crate) fn f(n: u32) -> u32 { probe!("f", n); n + 1 }
}

whole! {
    fn g(n: u32) -> u32 { n + 2 }
}

named!("one", h1);
named!("two", h2);

fn main() {
    assert_eq!(f(1) + g(1) + h1(1) + h2(1), 13);
}
