//! `std::sync::mpsc` with probes.
//!
//! These channels don't tell how many messages they hold, so there is no field `len`: counting them
//! would cost two locked instructions a message, latent, too.

use std::sync::mpsc;
use std::time::Duration;

use probe_runtime::probe;

use crate::iter::Receive;
use crate::name::{Name, Probed, both};

#[doc(no_inline)]
pub use std::sync::mpsc::*;

/// [`std::sync::mpsc::Sender`] with probes.
///
/// ```
/// let (sender, receiver): (probe_sync::mpsc::Sender<u32>, _) = probe_sync::mpsc::channel();
/// sender.send(7).unwrap();
/// assert_eq!(receiver.recv(), Ok(7));
/// ```
pub type Sender<T> = Probed<mpsc::Sender<T>>;

/// [`std::sync::mpsc::SyncSender`] with probes.
///
/// ```
/// let (sender, receiver): (probe_sync::mpsc::SyncSender<u32>, _) = probe_sync::mpsc::sync_channel(1);
/// sender.send(7).unwrap();
/// assert!(sender.try_send(8).is_err());
/// # drop(receiver);
/// ```
pub type SyncSender<T> = Probed<mpsc::SyncSender<T>>;

/// [`std::sync::mpsc::Receiver`] with probes.
///
/// ```
/// let (sender, receiver): (_, probe_sync::mpsc::Receiver<u32>) = probe_sync::mpsc::channel();
/// sender.send(7).unwrap();
/// drop(sender);
/// assert_eq!(receiver.into_iter().collect::<Vec<_>>(), [7]);
/// ```
pub type Receiver<T> = Probed<mpsc::Receiver<T>>;

/// The messages of a receiver, with waits.
///
/// ```
/// use probe_sync::mpsc::{Iter, channel};
///
/// let (sender, receiver) = channel();
/// sender.send(7).unwrap();
/// drop(sender);
/// let messages: Iter<'_, u32> = receiver.iter();
/// assert_eq!(messages.collect::<Vec<_>>(), [7]);
/// ```
pub type Iter<'a, T> = crate::iter::Iter<'a, Receiver<T>>;

/// The messages that are there.
///
/// ```
/// use probe_sync::mpsc::{TryIter, channel};
///
/// let (sender, receiver) = channel();
/// sender.send(7).unwrap();
/// let messages: TryIter<'_, u32> = receiver.try_iter();
/// assert_eq!(messages.collect::<Vec<_>>(), [7]);
/// ```
pub type TryIter<'a, T> = crate::iter::TryIter<'a, Receiver<T>>;

/// As [`Iter`], with the receiver.
///
/// ```
/// use probe_sync::mpsc::{IntoIter, channel};
///
/// let (sender, receiver) = channel();
/// sender.send(7).unwrap();
/// let mut messages: IntoIter<u32> = receiver.into_iter();
/// assert_eq!(messages.next(), Some(7));
/// ```
pub type IntoIter<T> = crate::iter::IntoIter<Receiver<T>>;

/// As [`std::sync::mpsc::channel`]. The channel is named after this place.
///
/// ```
/// let (sender, receiver) = probe_sync::mpsc::channel();
/// sender.send(7).unwrap();
/// assert_eq!(receiver.recv(), Ok(7));
/// ```
#[track_caller]
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    both(Name::here(), mpsc::channel())
}

/// As [`std::sync::mpsc::sync_channel`]. The channel is named after this place.
///
/// ```
/// let (sender, receiver) = probe_sync::mpsc::sync_channel(1);
/// sender.send(7).unwrap();
/// assert_eq!(receiver.recv(), Ok(7));
/// ```
#[track_caller]
pub fn sync_channel<T>(bound: usize) -> (SyncSender<T>, Receiver<T>) {
    both(Name::here(), mpsc::sync_channel(bound))
}

impl<T> Probed<mpsc::Sender<T>> {
    /// As [`std::sync::mpsc::Sender::send`].
    #[inline]
    #[probe(name = "send", args(channel = %self.name, name = self.name.text()))]
    pub fn send(&self, message: T) -> Result<(), SendError<T>> {
        self.original.send(message)
    }
}

impl<T> Probed<mpsc::SyncSender<T>> {
    /// As [`std::sync::mpsc::SyncSender::send`].
    #[inline]
    #[probe(name = "sync_send", args(channel = %self.name, name = self.name.text()))]
    pub fn send(&self, message: T) -> Result<(), SendError<T>> {
        self.original.send(message)
    }

    /// As [`std::sync::mpsc::SyncSender::try_send`].
    #[inline]
    #[probe(name = "try_send", args(channel = %self.name, name = self.name.text()))]
    pub fn try_send(&self, message: T) -> Result<(), TrySendError<T>> {
        self.original.try_send(message)
    }
}

impl<T> Probed<mpsc::Receiver<T>> {
    /// As [`std::sync::mpsc::Receiver::recv`].
    #[inline]
    #[probe(name = "recv", args(channel = %self.name, name = self.name.text()))]
    pub fn recv(&self) -> Result<T, RecvError> {
        self.original.recv()
    }

    /// As [`std::sync::mpsc::Receiver::try_recv`].
    #[inline]
    #[probe(name = "try_recv", args(channel = %self.name, name = self.name.text()))]
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        self.original.try_recv()
    }

    /// As [`std::sync::mpsc::Receiver::recv_timeout`].
    #[inline]
    #[probe(name = "recv_timeout", args(channel = %self.name, name = self.name.text()))]
    pub fn recv_timeout(&self, limit: Duration) -> Result<T, RecvTimeoutError> {
        self.original.recv_timeout(limit)
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
