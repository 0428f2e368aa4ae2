use probe_runtime::probe;

const NAME: &str = "name";

#[probe(name = 3)]
fn f() {}

#[probe(name = concat!("a", "b"))]
fn g() {
    probe!(NAME);
    probe!(concat!("a", "b"), NAME);
}

#[probe(name = )]
fn h() {}

fn main() {
    f();
    g();
    h();
}
