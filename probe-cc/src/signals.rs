//! Signals that end this program: it first removes its files. The compiler gets them, too.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::{flag, low_level};

/// Notes signals, until it ends the program with one.
pub(crate) struct Signals {
    seen: Arc<AtomicUsize>,
}

impl Signals {
    /// Catches the signals that are not ignored: the compiler has to ignore those, too.
    pub(crate) fn caught() -> Self {
        let seen = Arc::new(AtomicUsize::new(0));
        let ignored = ignored(&fs::read_to_string("/proc/self/status").unwrap_or_default());
        for signal in [SIGHUP, SIGINT, SIGTERM] {
            if ignored >> (signal - 1) & 1 == 0 {
                // If it can't be caught, it ends the program at once.
                let _ = flag::register_usize(signal, Arc::clone(&seen), usize::try_from(signal).unwrap_or(0));
            }
        }
        Self { seen }
    }

    /// Returns whether a signal has come.
    pub(crate) fn have_come(&self) -> bool {
        self.seen.load(Ordering::SeqCst) != 0
    }

    /// Ends the program if a signal has come. The caller has removed its files.
    pub(crate) fn obey(&self) {
        if let Ok(signal @ 1..) = i32::try_from(self.seen.load(Ordering::SeqCst)) {
            let _ = low_level::emulate_default_handler(signal);
        }
    }
}

/// Returns a bit for each ignored signal, from signal 1.
fn ignored(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read() {
        assert_eq!(ignored("Name:\ta\nSigIgn:\t0000000000000002\n"), 2);
        assert_eq!(ignored(""), 0);
    }
}
