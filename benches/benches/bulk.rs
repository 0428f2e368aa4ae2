//! `bulk`: switching 10,000 sites at a time.

use std::hint::black_box;

probe_benches::generated_functions!(5_000);

fn main() -> Result<(), probe_runtime::Error> {
    black_box(generated_first as extern "C" fn(u64) -> u64);
    probe_benches::bulk::run("bulk-10k", 10_000, 300, 4)
}
