//! A library that ships probes through another version of the runtime than the program has.

#![cfg_attr(not(feature = "runtime"), no_std)]
#![forbid(unsafe_code)]

use probe_runtime::probe;

/// Triples it.
#[probe]
#[inline(never)]
pub fn triple(x: u64) -> u64 {
    probe!("tripling", x, half = x / 2, text = "new", debug = ?Some(x));
    core::hint::black_box(x) * 3
}

/// Compiled where it is used, for its type.
#[probe]
#[inline(never)]
pub fn keep<T: Copy>(x: T) -> T {
    core::hint::black_box(x)
}

/// This version's own runtime.
#[cfg(feature = "runtime")]
pub mod runtime {
    use probe_runtime::{Attachment, Count, Error, probes, select};

    /// An attachment of this version's runtime.
    pub struct Attached(Attachment<Count>);

    impl Attached {
        /// Returns how many sites attaching has switched.
        pub fn patched(&self) -> usize {
            self.0.report().patched()
        }

        /// Hits until now.
        pub fn total(&self) -> u64 {
            self.0.total()
        }

        /// Detaches. Returns how many sites that has switched.
        pub fn detach(self) -> usize {
            self.0.detach().patched()
        }
    }

    /// How many probes it knows.
    pub fn known() -> usize {
        probes().len()
    }

    /// Attaches to what the selector names; how many sites another runtime has, if it could not.
    pub fn attach(selector: &str) -> Result<Attached, usize> {
        let set = select(selector).expect("probes");
        set.attach(Count::new()).map(Attached).map_err(|error| match error {
            Error::Refused(report) => report.refused(),
            error => panic!("{error}"),
        })
    }
}
