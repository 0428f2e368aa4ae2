//! Iterators over received messages.

use crate::name::Probed;

/// A receiver that threads wait at.
pub trait Receive {
    /// Its messages.
    type Message;

    /// Waits for a message; `None` after the last one.
    fn next(&self) -> Option<Self::Message>;

    /// Returns a message that is there.
    fn try_next(&self) -> Option<Self::Message>;
}

/// Waits for each message of a receiver, until the channel is closed.
///
/// ```
/// let (sender, receiver) = probe_sync::mpsc::channel();
/// sender.send(7).unwrap();
/// drop(sender);
/// assert_eq!(receiver.iter().collect::<Vec<_>>(), [7]);
/// ```
#[derive(Debug)]
pub struct Iter<'a, R>(pub(crate) &'a R);

impl<R: Receive> Iterator for Iter<'_, R> {
    type Item = R::Message;

    fn next(&mut self) -> Option<R::Message> {
        self.0.next()
    }
}

/// Returns the messages that are there.
///
/// ```
/// let (sender, receiver) = probe_sync::mpsc::channel();
/// sender.send(7).unwrap();
/// assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [7]);
/// ```
#[derive(Debug)]
pub struct TryIter<'a, R>(pub(crate) &'a R);

impl<R: Receive> Iterator for TryIter<'_, R> {
    type Item = R::Message;

    fn next(&mut self) -> Option<R::Message> {
        self.0.try_next()
    }
}

/// As [`Iter`], with the receiver.
///
/// ```
/// let (sender, receiver) = probe_sync::mpsc::channel();
/// sender.send(7).unwrap();
/// drop(sender);
/// assert_eq!(receiver.into_iter().next(), Some(7));
/// ```
#[derive(Debug)]
pub struct IntoIter<R>(R);

impl<R: Receive> Iterator for IntoIter<R> {
    type Item = R::Message;

    fn next(&mut self) -> Option<R::Message> {
        self.0.next()
    }
}

impl<R> Probed<R>
where
    Self: Receive,
{
    /// Iterates over the messages, and waits for each.
    pub const fn iter(&self) -> Iter<'_, Self> {
        Iter(self)
    }

    /// Iterates over the messages that are there.
    pub const fn try_iter(&self) -> TryIter<'_, Self> {
        TryIter(self)
    }
}

impl<'a, R> IntoIterator for &'a Probed<R>
where
    Probed<R>: Receive,
{
    type Item = <Probed<R> as Receive>::Message;
    type IntoIter = Iter<'a, Probed<R>>;

    fn into_iter(self) -> Self::IntoIter {
        Iter(self)
    }
}

impl<R> IntoIterator for Probed<R>
where
    Self: Receive,
{
    type Item = <Self as Receive>::Message;
    type IntoIter = IntoIter<Self>;

    fn into_iter(self) -> Self::IntoIter {
        IntoIter(self)
    }
}
