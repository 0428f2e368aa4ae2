//! `bulk_million`: switching 1,000,000 sites at a time.

use std::hint::black_box;

probe_benches::generated_functions!(500_000);

fn main() -> Result<(), probe_runtime::Error> {
    black_box(generated_first as extern "C" fn(u64) -> u64);
    probe_benches::bulk::run("bulk-1m", 1_000_000, 15, 1)
}
