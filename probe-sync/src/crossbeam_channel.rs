//! `crossbeam-channel` with probes.
//!
//! `select!` takes these receivers and senders, since they deref to the original ones. Its own
//! operations are no hits, and neither are those of the receivers of `after`, `at`, `never` and
//! `tick`.

use std::time::{Duration, Instant};

use probe_runtime::probe;

use crate::iter::Receive;
use crate::name::{Name, Probed, both};

#[doc(no_inline)]
pub use ::crossbeam_channel::*;

/// `crossbeam_channel::Sender` with probes.
///
/// ```
/// use probe_sync::crossbeam_channel::{Sender, bounded};
///
/// let (sender, receiver): (Sender<u32>, _) = bounded(1);
/// sender.send(7).unwrap();
/// assert!(sender.is_full());
/// # drop(receiver);
/// ```
pub type Sender<T> = Probed<::crossbeam_channel::Sender<T>>;

/// `crossbeam_channel::Receiver` with probes.
///
/// ```
/// use probe_sync::crossbeam_channel::{Receiver, unbounded};
///
/// let (sender, receiver): (_, Receiver<u32>) = unbounded();
/// sender.send(7).unwrap();
/// assert_eq!(receiver.recv(), Ok(7));
/// ```
pub type Receiver<T> = Probed<::crossbeam_channel::Receiver<T>>;

/// The messages of a receiver, with waits.
///
/// ```
/// use probe_sync::crossbeam_channel::{Iter, unbounded};
///
/// let (sender, receiver) = unbounded();
/// sender.send(7).unwrap();
/// drop(sender);
/// let messages: Iter<'_, u32> = receiver.iter();
/// assert_eq!(messages.collect::<Vec<_>>(), [7]);
/// ```
pub type Iter<'a, T> = crate::iter::Iter<'a, Receiver<T>>;

/// The messages that are there.
///
/// ```
/// use probe_sync::crossbeam_channel::{TryIter, unbounded};
///
/// let (sender, receiver) = unbounded();
/// sender.send(7).unwrap();
/// let messages: TryIter<'_, u32> = receiver.try_iter();
/// assert_eq!(messages.collect::<Vec<_>>(), [7]);
/// ```
pub type TryIter<'a, T> = crate::iter::TryIter<'a, Receiver<T>>;

/// As [`Iter`], with the receiver.
///
/// ```
/// use probe_sync::crossbeam_channel::{IntoIter, unbounded};
///
/// let (sender, receiver) = unbounded();
/// sender.send(7).unwrap();
/// let mut messages: IntoIter<u32> = receiver.into_iter();
/// assert_eq!(messages.next(), Some(7));
/// ```
pub type IntoIter<T> = crate::iter::IntoIter<Receiver<T>>;

/// As `crossbeam_channel::bounded`. The channel is named after this place.
///
/// ```
/// let (sender, receiver) = probe_sync::crossbeam_channel::bounded(1);
/// sender.send(7).unwrap();
/// assert_eq!(receiver.recv(), Ok(7));
/// ```
#[track_caller]
pub fn bounded<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    both(Name::here(), ::crossbeam_channel::bounded(capacity))
}

/// As `crossbeam_channel::unbounded`. The channel is named after this place.
///
/// ```
/// let (sender, receiver) = probe_sync::crossbeam_channel::unbounded();
/// sender.send(7).unwrap();
/// assert_eq!(receiver.recv(), Ok(7));
/// ```
#[track_caller]
pub fn unbounded<T>() -> (Sender<T>, Receiver<T>) {
    both(Name::here(), ::crossbeam_channel::unbounded())
}

impl<T> Probed<::crossbeam_channel::Sender<T>> {
    /// As `crossbeam_channel::Sender::send`.
    #[inline]
    #[probe(name = "send", args(channel = %self.name, name = self.name.text(), len = self.original.len()))]
    pub fn send(&self, message: T) -> Result<(), SendError<T>> {
        self.original.send(message)
    }

    /// As `crossbeam_channel::Sender::try_send`.
    #[inline]
    #[probe(name = "try_send", args(channel = %self.name, name = self.name.text(), len = self.original.len()))]
    pub fn try_send(&self, message: T) -> Result<(), TrySendError<T>> {
        self.original.try_send(message)
    }

    /// As `crossbeam_channel::Sender::send_timeout`.
    #[inline]
    #[probe(name = "send_timeout", args(channel = %self.name, name = self.name.text(), len = self.original.len()))]
    pub fn send_timeout(&self, message: T, limit: Duration) -> Result<(), SendTimeoutError<T>> {
        self.original.send_timeout(message, limit)
    }

    /// As `crossbeam_channel::Sender::send_deadline`.
    #[inline]
    #[probe(name = "send_deadline", args(channel = %self.name, name = self.name.text(), len = self.original.len()))]
    pub fn send_deadline(&self, message: T, deadline: Instant) -> Result<(), SendTimeoutError<T>> {
        self.original.send_deadline(message, deadline)
    }
}

impl<T> Probed<::crossbeam_channel::Receiver<T>> {
    /// As `crossbeam_channel::Receiver::recv`.
    #[inline]
    #[probe(name = "recv", args(channel = %self.name, name = self.name.text(), len = self.original.len()))]
    pub fn recv(&self) -> Result<T, RecvError> {
        self.original.recv()
    }

    /// As `crossbeam_channel::Receiver::try_recv`.
    #[inline]
    #[probe(name = "try_recv", args(channel = %self.name, name = self.name.text(), len = self.original.len()))]
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        self.original.try_recv()
    }

    /// As `crossbeam_channel::Receiver::recv_timeout`.
    #[inline]
    #[probe(name = "recv_timeout", args(channel = %self.name, name = self.name.text(), len = self.original.len()))]
    pub fn recv_timeout(&self, limit: Duration) -> Result<T, RecvTimeoutError> {
        self.original.recv_timeout(limit)
    }

    /// As `crossbeam_channel::Receiver::recv_deadline`.
    #[inline]
    #[probe(name = "recv_deadline", args(channel = %self.name, name = self.name.text(), len = self.original.len()))]
    pub fn recv_deadline(&self, deadline: Instant) -> Result<T, RecvTimeoutError> {
        self.original.recv_deadline(deadline)
    }
}

impl<T> Receive for Receiver<T> {
    type Message = T;

    fn next(&self) -> Option<T> {
        self.recv().ok()
    }

    fn try_next(&self) -> Option<T> {
        self.try_recv().ok()
    }
}
