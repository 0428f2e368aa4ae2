//! For the bench `startup`: 50,000 functions without probes. Prints the time at which `main` was
//! reached.

use std::hint::black_box;

probe_benches::generated_functions!(50_000, plain);

fn main() {
    let at = probe_benches::monotonic_ns();
    black_box(generated_first as extern "C" fn(u64) -> u64);
    println!("{at}");
}
