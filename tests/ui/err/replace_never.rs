use probe_runtime::probe;

#[probe(replace)]
fn fail(message: &str) -> ! {
    panic!("{message}")
}

fn main() {
    fail("");
}
