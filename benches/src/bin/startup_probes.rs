//! For the bench `startup`: 50,000 functions with 100,000 sites. Prints the time at which `main`
//! was reached; with an argument, also the nanoseconds of the first `select`, and the number of
//! probes that it found.

use std::hint::black_box;
use std::time::Instant;

probe_benches::generated_functions!(50_000);

fn main() {
    let at = probe_benches::monotonic_ns();
    black_box(generated_first as extern "C" fn(u64) -> u64);
    println!("{at}");
    if let Some(selector) = std::env::args().nth(1) {
        let start = Instant::now();
        let found = probe_runtime::select(&selector).map_or(0, |set| set.len());
        println!("{} {found}", start.elapsed().as_nanos());
    }
}
