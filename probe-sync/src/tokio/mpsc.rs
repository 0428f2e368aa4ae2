//! `tokio::sync::mpsc` with probes.
//!
//! The sender of an unbounded channel does not tell how many messages there are; its receiver does.

use ::tokio::sync::mpsc;
use probe_runtime::probe;

use crate::name::{Name, Probed, both};

#[doc(no_inline)]
pub use ::tokio::sync::mpsc::*;

use error::{SendError, TryRecvError, TrySendError};

/// `tokio::sync::mpsc::Sender` with probes.
///
/// ```
/// use probe_sync::tokio::mpsc::{Sender, channel};
///
/// let (sender, receiver): (Sender<u32>, _) = channel(1);
/// sender.try_send(7).unwrap();
/// assert_eq!((sender.capacity(), receiver.len()), (0, 1));
/// ```
pub type Sender<T> = Probed<mpsc::Sender<T>>;

/// `tokio::sync::mpsc::Receiver` with probes.
///
/// ```
/// use probe_sync::tokio::mpsc::{Receiver, channel};
///
/// let (sender, mut receiver): (_, Receiver<u32>) = channel(1);
/// sender.try_send(7).unwrap();
/// assert_eq!(receiver.try_recv(), Ok(7));
/// ```
pub type Receiver<T> = Probed<mpsc::Receiver<T>>;

/// `tokio::sync::mpsc::UnboundedSender` with probes.
///
/// ```
/// use probe_sync::tokio::mpsc::{UnboundedSender, unbounded_channel};
///
/// let (sender, receiver): (UnboundedSender<u32>, _) = unbounded_channel();
/// sender.send(7).unwrap();
/// assert_eq!(receiver.len(), 1);
/// ```
pub type UnboundedSender<T> = Probed<mpsc::UnboundedSender<T>>;

/// `tokio::sync::mpsc::UnboundedReceiver` with probes.
///
/// ```
/// use probe_sync::tokio::mpsc::{UnboundedReceiver, unbounded_channel};
///
/// let (sender, mut receiver): (_, UnboundedReceiver<u32>) = unbounded_channel();
/// sender.send(7).unwrap();
/// assert_eq!(receiver.try_recv(), Ok(7));
/// ```
pub type UnboundedReceiver<T> = Probed<mpsc::UnboundedReceiver<T>>;

/// As `tokio::sync::mpsc::channel`. The channel is named after this place.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let (sender, mut receiver) = probe_sync::tokio::mpsc::channel(1);
/// sender.send(7).await.unwrap();
/// assert_eq!(receiver.recv().await, Some(7));
/// # }
/// ```
#[track_caller]
pub fn channel<T>(buffer: usize) -> (Sender<T>, Receiver<T>) {
    both(Name::here(), mpsc::channel(buffer))
}

/// As `tokio::sync::mpsc::unbounded_channel`. The channel is named after this place.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let (sender, mut receiver) = probe_sync::tokio::mpsc::unbounded_channel();
/// sender.send(7).unwrap();
/// assert_eq!(receiver.recv().await, Some(7));
/// # }
/// ```
#[track_caller]
pub fn unbounded_channel<T>() -> (UnboundedSender<T>, UnboundedReceiver<T>) {
    both(Name::here(), mpsc::unbounded_channel())
}

/// The messages in a bounded channel, and the places that are reserved for some.
fn len<T>(sender: &mpsc::Sender<T>) -> usize {
    sender.max_capacity() - sender.capacity()
}

impl<T> Probed<mpsc::Sender<T>> {
    /// As `tokio::sync::mpsc::Sender::send`.
    #[probe(name = "send", args(channel = %self.name, name = self.name.text(), len = len(&self.original)))]
    pub async fn send(&self, message: T) -> Result<(), SendError<T>> {
        self.original.send(message).await
    }

    /// As `tokio::sync::mpsc::Sender::try_send`.
    #[probe(name = "try_send", args(channel = %self.name, name = self.name.text(), len = len(&self.original)))]
    pub fn try_send(&self, message: T) -> Result<(), TrySendError<T>> {
        self.original.try_send(message)
    }

    /// As `tokio::sync::mpsc::Sender::blocking_send`.
    #[track_caller]
    #[probe(name = "blocking_send", args(channel = %self.name, name = self.name.text(), len = len(&self.original)))]
    pub fn blocking_send(&self, message: T) -> Result<(), SendError<T>> {
        self.original.blocking_send(message)
    }

    /// As `tokio::sync::mpsc::Sender::reserve`.
    #[probe(name = "reserve", args(channel = %self.name, name = self.name.text(), len = len(&self.original)))]
    pub async fn reserve(&self) -> Result<Permit<'_, T>, SendError<()>> {
        self.original.reserve().await
    }

    /// As `tokio::sync::mpsc::Sender::reserve_many`.
    #[probe(name = "reserve_many", args(channel = %self.name, name = self.name.text(), len = len(&self.original)))]
    pub async fn reserve_many(&self, count: usize) -> Result<PermitIterator<'_, T>, SendError<()>> {
        self.original.reserve_many(count).await
    }

    /// As `tokio::sync::mpsc::Sender::reserve_owned`. The permit returns the original sender.
    #[probe(name = "reserve_owned", args(channel = %self.name, name = self.name.text(), len = len(&self.original)))]
    pub async fn reserve_owned(self) -> Result<OwnedPermit<T>, SendError<()>> {
        self.original.reserve_owned().await
    }
}

impl<T> Probed<mpsc::Receiver<T>> {
    /// As `tokio::sync::mpsc::Receiver::recv`.
    #[probe(name = "recv", args(channel = %self.name, name = self.name.text(), len = self.original.len()))]
    pub async fn recv(&mut self) -> Option<T> {
        self.original.recv().await
    }

    /// As `tokio::sync::mpsc::Receiver::recv_many`.
    #[probe(name = "recv_many", args(channel = %self.name, name = self.name.text(), len = self.original.len()))]
    pub async fn recv_many(&mut self, buffer: &mut Vec<T>, limit: usize) -> usize {
        self.original.recv_many(buffer, limit).await
    }

    /// As `tokio::sync::mpsc::Receiver::try_recv`.
    #[probe(name = "try_recv", args(channel = %self.name, name = self.name.text(), len = self.original.len()))]
    pub fn try_recv(&mut self) -> Result<T, TryRecvError> {
        self.original.try_recv()
    }

    /// As `tokio::sync::mpsc::Receiver::blocking_recv`.
    #[track_caller]
    #[probe(name = "blocking_recv", args(channel = %self.name, name = self.name.text(), len = self.original.len()))]
    pub fn blocking_recv(&mut self) -> Option<T> {
        self.original.blocking_recv()
    }

    /// As `tokio::sync::mpsc::Receiver::blocking_recv_many`.
    #[track_caller]
    #[probe(name = "blocking_recv_many", args(channel = %self.name, name = self.name.text(), len = self.original.len()))]
    pub fn blocking_recv_many(&mut self, buffer: &mut Vec<T>, limit: usize) -> usize {
        self.original.blocking_recv_many(buffer, limit)
    }
}

impl<T> Probed<mpsc::UnboundedSender<T>> {
    /// As `tokio::sync::mpsc::UnboundedSender::send`.
    #[probe(name = "unbounded_send", args(channel = %self.name, name = self.name.text()))]
    pub fn send(&self, message: T) -> Result<(), SendError<T>> {
        self.original.send(message)
    }
}

impl<T> Probed<mpsc::UnboundedReceiver<T>> {
    /// As `tokio::sync::mpsc::UnboundedReceiver::recv`.
    #[probe(name = "unbounded_recv", args(channel = %self.name, name = self.name.text(), len = self.original.len()))]
    pub async fn recv(&mut self) -> Option<T> {
        self.original.recv().await
    }

    /// As `tokio::sync::mpsc::UnboundedReceiver::recv_many`.
    #[probe(name = "unbounded_recv_many", args(channel = %self.name, name = self.name.text(), len = self.original.len()))]
    pub async fn recv_many(&mut self, buffer: &mut Vec<T>, limit: usize) -> usize {
        self.original.recv_many(buffer, limit).await
    }

    /// As `tokio::sync::mpsc::UnboundedReceiver::try_recv`.
    #[probe(name = "unbounded_try_recv", args(channel = %self.name, name = self.name.text(), len = self.original.len()))]
    pub fn try_recv(&mut self) -> Result<T, TryRecvError> {
        self.original.try_recv()
    }

    /// As `tokio::sync::mpsc::UnboundedReceiver::blocking_recv`.
    #[track_caller]
    #[probe(name = "unbounded_blocking_recv", args(channel = %self.name, name = self.name.text(), len = self.original.len()))]
    pub fn blocking_recv(&mut self) -> Option<T> {
        self.original.blocking_recv()
    }

    /// As `tokio::sync::mpsc::UnboundedReceiver::blocking_recv_many`.
    #[track_caller]
    #[probe(name = "unbounded_blocking_recv_many", args(channel = %self.name, name = self.name.text(), len = self.original.len()))]
    pub fn blocking_recv_many(&mut self, buffer: &mut Vec<T>, limit: usize) -> usize {
        self.original.blocking_recv_many(buffer, limit)
    }
}
