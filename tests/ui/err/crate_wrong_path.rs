use probe_runtime::probe;

#[probe(crate = ::not_there)]
fn f() {}

fn main() {
    f();
}
