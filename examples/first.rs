//! The smallest program with probes: attach, run, print.
//!
//! ```text
//! cargo run --example first
//! ```

use probe_runtime::{Count, probe, select};

#[probe] // probes at entry and exit
fn handle(request: &str) -> usize {
    probe!("checkpoint");
    probe!("parsed", bytes = request.len());
    request.len()
}

fn main() -> Result<(), probe_runtime::Error> {
    let hits = select("first::handle")?.attach(Count::new())?;
    handle("hello");
    println!("{hits}");
    Ok(())
}
