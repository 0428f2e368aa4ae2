//! Further threads. Each holds a token of cargo's jobserver while it works.

// Safety: relies on cargo, which opens the descriptors whose numbers are in the environment, and
// leaves them open. This process closes no descriptors that it has not opened.
#![expect(unsafe_code, reason = "see above")]

use std::num::NonZero;
use std::sync::OnceLock;
use std::time::Duration;
use std::{env, thread};

use jobserver::Client;

/// The interval at which a thread without a token asks for one.
const TOKEN_RETRY_INTERVAL: Duration = Duration::from_millis(10);

/// Runs `own` on this thread and, in parallel, `step` on further ones as long as it returns true.
/// There are at most `units` threads, and at most `NUM_JOBS`.
pub(super) fn run_in_parallel(
    units: usize,
    is_done: &(dyn Fn() -> bool + Sync),
    step: &(dyn Fn() -> bool + Sync),
    own: impl FnOnce(),
) {
    let threads = units.min(limit());
    thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(|| {
                while !is_done() {
                    match client().map(Client::try_acquire) {
                        // No jobserver: `NUM_JOBS` is the limit.
                        None => _ = step(),
                        Some(Ok(Some(_token))) => _ = step(),
                        Some(Ok(None)) => thread::sleep(TOKEN_RETRY_INTERVAL),
                        // The jobserver supports no query without waiting, so this thread ends.
                        Some(Err(_)) => return,
                    }
                }
            });
        }
        own();
    });
}

fn limit() -> usize {
    let said = env::var("NUM_JOBS").ok().and_then(|jobs| jobs.parse().ok());
    said.or_else(|| thread::available_parallelism().ok().map(NonZero::get)).unwrap_or(1)
}

fn client() -> Option<&'static Client> {
    static CLIENT: OnceLock<Option<Client>> = OnceLock::new();
    // SAFETY: the descriptors in the environment are cargo's, see the module's documentation.
    CLIENT.get_or_init(|| unsafe { Client::from_env() }).as_ref()
}
