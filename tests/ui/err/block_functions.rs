//! A block leaves out functions that can't be probed; the attribute on one of them is an error.

use probe_runtime::probe;

#[probe]
mod m {
    pub const fn left_out() {}

    #[probe]
    pub const fn asked_for() {}

    pub trait T {
        #[probe]
        fn bodiless(&self);
    }

    #[probe]
    pub mod inner {
        #[probe(nome = "x")]
        pub fn misspelt() {}
    }
}

fn main() {
    m::left_out();
    m::asked_for();
    m::inner::misspelt();
}
