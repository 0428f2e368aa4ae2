use probe_runtime::probe;

#[probe(name = "")]
fn f() {
    probe!("");
}

fn main() {
    f();
}
