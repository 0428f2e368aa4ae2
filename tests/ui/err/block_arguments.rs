use probe_runtime::probe;

struct S;

#[probe(name = "s")]
impl S {
    #[probe(all)]
    fn a() {}

    #[probe(only("b"))]
    fn b() {}

    #[probe(skip, group = "x")]
    fn c() {}

    #[probe]
    #[probe(skip)]
    fn d() {}

    #[cfg_attr(all(), probe(skip))]
    fn e() {}
}

#[probe(all)]
fn free() {}

fn main() {
    S::a();
    S::b();
    S::c();
    S::d();
    S::e();
    free();
}
