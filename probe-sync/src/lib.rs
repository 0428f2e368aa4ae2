//! Latent probes in locks and channels.
#![deny(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

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
pub use self::name::{Name, Named};
pub use self::std::condvar::Condvar;
pub use self::std::mpsc;
pub use self::std::mutex::{Mutex, MutexGuard};
pub use self::std::rw_lock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use ::std::sync::{LockResult, PoisonError, TryLockError, TryLockResult, WaitTimeoutResult};
