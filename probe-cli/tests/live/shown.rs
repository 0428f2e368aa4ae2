//! Functions of the program for tests that look at tables: paths, fields and groups of any length.

use std::hint::black_box;

use probe_runtime::probe;

/// Serves an order.
#[probe]
#[inline(never)]
pub fn serve(number: u64) -> u64 {
    let cents = store::price(number);
    probe!("priced", customer = "ada", cents, is_large = cents > 500);
    billing_of_customers_abroad::invoices_in_foreign_currencies(cents)
}

mod store {
    use super::{black_box, probe};

    /// Reads a price.
    #[probe(group = "db")]
    #[inline(never)]
    pub(super) fn price(article: u64) -> u64 {
        (0..800).fold(article, |sum, n| black_box(sum ^ n)) % 1000
    }
}

mod billing_of_customers_abroad {
    use super::{black_box, probe};

    #[probe(group = "billing")]
    #[inline(never)]
    pub(super) fn invoices_in_foreign_currencies(cents: u64) -> u64 {
        black_box(cents * 3)
    }
}

/// Not called while the program runs.
#[probe]
#[inline(never)]
pub fn close(number: u64) -> u64 {
    black_box(number)
}
