use probe_runtime::probe;

#[probe(crate = "probe_runtime")]
fn f() {
    probe!("still-resolves");
}

fn main() {
    f();
}
