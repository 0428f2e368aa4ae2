use probe_runtime::probe;

#[probe(nome = "f")]
fn f() {}

#[probe(skip(self))]
fn g() {}

fn main() {
    f();
    g();
}
