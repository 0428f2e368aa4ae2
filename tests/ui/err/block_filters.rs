use probe_runtime::probe;

struct S;

#[probe(only(), except = "get_*")]
impl S {
    fn get_a() {}
}

#[probe(only("get_*", "set_*"), except("S::get a"))]
impl S {
    fn get_b() {}
}

#[probe(all = true, except(S::new))]
mod m {}

fn main() {
    S::get_a();
    S::get_b();
}
