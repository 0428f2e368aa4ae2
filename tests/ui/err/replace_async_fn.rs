use probe_runtime::probe;

#[probe(replace)]
async fn fetch(n: u32) -> u32 {
    n
}

fn main() {
    drop(fetch(1));
}
