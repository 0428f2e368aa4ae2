use probe_runtime::probe;

#[probe(name = "net::")]
fn f() {
    probe!("::handle");
    probe!("net::::handle");
}

fn main() {
    f();
}
