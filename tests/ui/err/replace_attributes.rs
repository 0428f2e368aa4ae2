use probe_runtime::probe;

#[probe(replace)]
#[target_feature(enable = "sse4.2")]
fn fast(n: u32) -> u32 {
    n
}

#[probe(replace)]
fn sometimes(n: u32, #[cfg(unix)] m: u32) -> u32 {
    n + m
}

fn main() {
    sometimes(1, 2);
}
