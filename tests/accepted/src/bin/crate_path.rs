//! `crate = path`: a crate re-exports the runtime under another name, and has a macro that uses it.

mod facade {
    pub mod deep {
        pub use ::probe_runtime as watch;
    }

    macro_rules! probed {
        ($vis:vis fn $name:ident($($arg:ident: $ty:ty),*) -> $out:ty $body:block) => {
            #[$crate::facade::deep::watch::probe(crate = $crate::facade::deep::watch)]
            $vis fn $name($($arg: $ty),*) -> $out $body
        };
    }
    pub(crate) use probed;
}

use facade::deep::watch::probe;

// Would not resolve without `crate = …`.
mod probe_runtime {}

#[probe(crate = crate::facade::deep::watch)]
fn f(n: u32) -> u32 {
    probe!("n", n);
    n + 1
}

#[probe(name = "other", crate = facade::deep::watch)]
fn g(n: u32) -> u32 {
    n + 2
}

facade::probed! {
    pub fn h(n: u32) -> u32 { n + 3 }
}

fn main() {
    assert_eq!((f(1), g(1), h(1)), (2, 3, 4));
}
