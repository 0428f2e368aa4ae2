use probe_runtime::probe;

#[probe(replace)]
const fn double(n: u32) -> u32 {
    n * 2
}

fn main() {
    double(1);
}
