use probe_runtime::probe;

#[probe(name = "a", name = "b")]
fn f() {}

fn main() {
    f();
}
