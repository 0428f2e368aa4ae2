use probe_runtime::probe;

#[probe("f")]
fn f() {}

#[probe(,)]
fn g() {}

#[probe(name)]
fn h() {}

fn main() {
    f();
    g();
    h();
}
