//! Prices of European options, after Black and Scholes.

use std::sync::atomic::{AtomicU64, Ordering};

use probe_runtime::probe;

use crate::{Done, Program, on_threads};

/// The program; a unit of work is one batch of [`BATCH`] options.
pub const PROGRAM: Program =
    Program { name: "options", probes: "probe_programs::options::**", unit: "batches", work: 2_000, run };

/// Number of options that are priced in a row.
pub const BATCH: u64 = 1_000;

/// The right to buy or sell an asset that costs `spot` now, for `strike`, in this many `years`.
#[derive(Clone, Copy, Debug)]
pub struct Contract {
    /// The asset's current price.
    pub spot: f64,
    /// The price that the contract fixes.
    pub strike: f64,
    /// Years until the contract ends.
    pub years: f64,
    /// The interest rate, per year.
    pub rate: f64,
    /// The standard deviation of the logarithm of the asset's price, per year.
    pub volatility: f64,
    /// Whether the contract is a right to buy.
    pub is_call: bool,
}

#[probe(all)]
impl Contract {
    /// Returns one contract of a portfolio.
    fn nth(n: u64) -> Self {
        let part = |of: u64| f64::from(u32::try_from(n % of).unwrap_or_default());
        Self {
            spot: 100.0,
            strike: 60.0 + part(81),
            years: 0.1 + part(50) / 25.0,
            rate: 0.02 + part(7) / 200.0,
            volatility: 0.1 + part(13) / 40.0,
            is_call: n.is_multiple_of(2),
        }
    }

    /// Returns the value of the contract.
    pub fn price(&self) -> f64 {
        let Self { spot, strike, years, rate, volatility, is_call } = *self;
        let spread = volatility * years.sqrt();
        let d1 = ((spot / strike).ln() + (rate + 0.5 * volatility * volatility) * years) / spread;
        let d2 = d1 - spread;
        let discounted = strike * (-rate * years).exp();
        if is_call {
            spot * normal(d1) - discounted * normal(d2)
        } else {
            discounted * normal(-d2) - spot * normal(-d1)
        }
    }
}

/// Returns the standard normal distribution (Abramowitz and Stegun 26.2.17).
#[probe]
fn normal(x: f64) -> f64 {
    let k = 1.0 / (1.0 + 0.231_641_9 * x.abs());
    let factors = [0.319_381_53, -0.356_563_782, 1.781_477_937, -1.821_255_978, 1.330_274_429];
    let sum = factors.iter().rev().fold(0.0, |sum, factor| (sum + factor) * k);
    let tail = (-0.5 * x * x).exp() * 0.398_942_280_401 * sum;
    if x < 0.0 { tail } else { 1.0 - tail }
}

#[probe]
fn price_batch(batch: u64) -> f64 {
    (batch * BATCH..(batch + 1) * BATCH).map(|n| Contract::nth(n).price()).sum()
}

/// Prices batches until none are left; returns each with its number.
#[probe]
fn work(next: &AtomicU64, batches: u64) -> Vec<(u64, f64)> {
    let mut priced = Vec::new();
    loop {
        let batch = next.fetch_add(1, Ordering::Relaxed);
        if batch >= batches {
            return priced;
        }
        priced.push((batch, price_batch(batch)));
    }
}

#[probe]
fn run(batches: u64, threads: usize) -> Done {
    let next = AtomicU64::new(0);
    let mut priced: Vec<_> = on_threads(threads, |_| work(&next, batches)).into_iter().flatten().collect();
    // The order of this sum must not depend on the threads.
    priced.sort_unstable_by_key(|(batch, _)| *batch);
    let worth: f64 = priced.iter().map(|(_, worth)| worth).sum();
    let options = batches * BATCH;
    Done {
        result: format!("{options} options are worth {worth:.2}"),
        calls: vec![
            ("run", 1),
            ("work", threads as u64),
            ("price_batch", batches),
            ("Contract::nth", options),
            ("Contract::price", options),
            ("normal", 2 * options),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_textbook_example_has_the_published_price() {
        // Hull, "Options, Futures, and Other Derivatives", example 15.6.
        let call =
            Contract { spot: 42.0, strike: 40.0, years: 0.5, rate: 0.1, volatility: 0.2, is_call: true };
        let put = Contract { is_call: false, ..call };
        assert_eq!(format!("{:.2} {:.2}", call.price(), put.price()), "4.76 0.81");
    }
}
