//! One item has one `#[probe]`, whatever stands between.

use probe_runtime::probe;

#[probe]
#[probe]
fn twice() {}

struct S;

impl S {
    #[probe(name = "a")]
    #[inline(never)]
    #[probe_runtime::probe(group = "b")]
    fn method(&self) {}
}

#[probe]
#[probe]
impl S {
    #[probe]
    #[probe]
    fn inside(&self) {}
}

fn main() {
    twice();
    S.method();
    S.inside();
}
