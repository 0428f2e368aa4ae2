use probe_runtime::probe;

#[probe(name = "two words")]
fn f() {
    probe!("net::*");
    probe!("net:handle");
}

fn main() {
    f();
}
