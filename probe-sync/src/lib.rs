//! Latent probes in locks and channels: waits for a lock, the time for which it is held, lengths of
//! queues.
//!
//! Change the `use` line. While no consumer is attached, each operation has some NOPs.
//!
//! ```
//! use probe_runtime::{Aggregate, select};
//! use probe_sync::Mutex; // in place of std::sync::Mutex
//!
//! static SESSIONS: Mutex<Vec<u32>> = Mutex::named("sessions", Vec::new());
//!
//! let waits = select("group=probe_sync::waits")?.attach(Aggregate::new("latency by(lock)")?)?;
//! let holds = select("probe_sync::**::hold*")?.attach(Aggregate::new("latency by(lock)")?)?;
//! SESSIONS.lock().unwrap().push(7);
//! let groups = holds.groups();
//! assert_eq!((groups[0].keys(), groups[0].count()), (&["sessions".to_owned()][..], 1));
//! println!("{waits}\n{holds}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | original | here | feature |
//! |---|---|---|
//! | `std::sync::{Mutex, RwLock, Condvar}` | at the root | |
//! | `std::sync::mpsc` | [`mpsc`] | |
//! | `tokio::sync::{Mutex, RwLock}`, `tokio::sync::mpsc` | `tokio`, `tokio::mpsc` | `tokio` |
//! | `parking_lot`, `lock_api` | `parking_lot` | `parking_lot` |
//! | `crossbeam_channel` | `crossbeam_channel` | `crossbeam-channel` |
//!
//! # Probes
//! | selector | a call | fields of the entry |
//! |---|---|---|
//! | `group=probe_sync::waits` | from the request for a lock to the acquisition | `lock`, `name`, `at` |
//! | `probe_sync::std::condvar::wait` | from the release for a condition to the next acquisition | `lock`, `name`, `at` |
//! | `probe_sync::**::hold*` | from the acquisition to the release | `future`, `lock`, `name`, `at` |
//! | `probe_sync::**::*send*`, `probe_sync::**::reserve*` | the operation, with its wait | `channel`, `name`, `len` |
//! | `probe_sync::**::*recv*` | the same | `channel`, `name`, `len` |
//!
//! - `lock` and `channel` are the given name, or the file and line of the creation, for groups:
//!   `latency by(lock)`. [`named`] gives a channel a name. `name` is the given name, or the file,
//!   for conditions: `[name == "sessions"]`. `at` is the lock's address, which tells locks of one
//!   place apart.
//! - Locks of one derived `Default` share its line. A function that is passed by name, as in
//!   `map(Mutex::new)`, or that a library calls, as `Arc::default()` does, names locks after a line
//!   of that library: give these a name, or group by `at`. `parking_lot` tells how it names locks.
//! - `len` is the number of messages when the operation begins. `std`'s channels don't tell it, and
//!   neither does `tokio`'s unbounded sender.
//! - A wait of `tokio` is a future: one that is dropped is cancelled.
//! - Holds overlap, and may end on other threads. So a hold is a future, too, which is suspended
//!   while the lock is held: `latency by(lock)` has its time. In the table of `latency`, `self` and
//!   `total` are what its hits cost.
//! - `try_lock` and its like begin holds, but are no waits.
//!
//! # Costs
//! A latent lock and unlock have six NOPs, a send or receive two. A lock and each end of a channel
//! are 16 bytes larger, for the name; guards of `std` and `tokio` have one or two words more. The
//! future of a wait of `tokio` for a lock is 40 bytes larger. There, futures take more than NOPs: a
//! free lock has 1.18 of its instructions, that of a reader 1.14, a message 1.11.
//!
//! # Limits
//! - Locks deref to the originals, and [`Guard::into_original`] returns the original guard, for
//!   functions that take these. They pass no probes.
//! - `tokio`'s mapped guards, `parking_lot`'s `Condvar` and `FairMutex`, and channels of
//!   other kinds have no counterpart here, and neither have `std`'s newer methods, such as
//!   `RwLockWriteGuard::downgrade`.
//! - Other methods of the originals pass no probes: `tokio`'s `send_timeout` and `try_reserve`, and
//!   what `WeakSender::upgrade` and `OwnedPermit::send` return.
//! - In `parking_lot`, recursive reads have no hold, and neither has one of a thread's two reads.
//! - Lints for guards, `let_underscore_lock` and `await_holding_lock`, don't know [`Guard`].
#![deny(unsafe_code)]
#![expect(clippy::missing_errors_doc, reason = "the originals have them")]

#[cfg(feature = "crossbeam-channel")]
pub mod crossbeam_channel;
mod hold;
mod iter;
mod name;
#[cfg(feature = "parking_lot")]
pub mod parking_lot;
mod std;
#[cfg(feature = "tokio")]
pub mod tokio;

pub use self::hold::Guard;
pub use self::iter::{IntoIter, Iter, TryIter};
pub use self::name::{Name, Probed, named};
pub use self::std::condvar::Condvar;
pub use self::std::mpsc;
pub use self::std::mutex::{Mutex, MutexGuard};
pub use self::std::rw_lock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
#[doc(no_inline)]
pub use ::std::sync::{LockResult, PoisonError, TryLockError, TryLockResult, WaitTimeoutResult};
