//! The shop: it serves a number of orders, and ends.

use std::env;
use std::hint::black_box;
use std::process::ExitCode;

use probe_runtime::{init_from_env, probe};

use crate::store;

/// Serves an order of three articles.
#[probe]
#[inline(never)]
fn serve(customer: &str, number: u64, work: u64) -> u64 {
    let cents = (0..3).map(|n| store::price(number + n)).sum();
    probe!("priced", customer, cents);
    pay(cents, work)
}

/// Takes the money.
#[probe]
#[inline(never)]
fn pay(cents: u64, work: u64) -> u64 {
    (0..work).fold(cents, |sum, n| black_box(sum ^ n))
}

/// Serves orders: 3000, or with `--serve` until somebody ends it. With `SLOW` in its environment,
/// paying takes ten times as long.
pub fn main() -> ExitCode {
    let _probes = match init_from_env() {
        Ok(probes) => probes,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let work = if env::var_os("SLOW").is_some() { 50_000 } else { 5_000 };
    if env::args().any(|argument| argument == "--serve") {
        for number in (0..3000).cycle() {
            black_box(serve("ada", number, work));
        }
    }
    let sum = (0..3000).map(|number| serve("ada", number, work)).fold(0, |sum, cents| sum ^ cents);
    black_box(sum);
    println!("served 3000 orders");
    ExitCode::SUCCESS
}
