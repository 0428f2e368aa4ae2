use probe_runtime::probe;

#[probe(group = "a b")]
fn a() {}

#[probe(group = net, doc = "")]
fn b() {}

#[probe(doc = "one line\nand another")]
fn c() {}

fn main() {
    a();
    b();
    c();
}
