//! Clients, and their attachments.
//!
//! A forked child has none of its parent's sockets, and finds the lock free.

// Safety: relies on descriptors being closed only in a child that has no thread which uses them.
#![expect(unsafe_code, reason = "see above")]

use std::collections::BTreeMap;
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use probe_protocol::{Channel, Failure, FailureKind, Listener, Peer};

use super::attachments::ClientAttachment;
use super::{MOST_CLIENTS, MOST_CONSUMERS};
use crate::engine::control;
use crate::engine::error::Error;
use crate::engine::os::kept::Kept;
use crate::engine::os::{AcrossForks, Rank, Ready, room};

static STATE: Mutex<State> = Mutex::new(State::new());

/// The state of this process's agent.
pub(super) struct State {
    /// `None` before the start, and in a forked child.
    pub(super) listener: Option<Arc<Listener>>,
    /// The process whose listener it is.
    pub(super) process: u64,
    /// The channels of connected clients.
    clients: BTreeMap<u64, Arc<Channel>>,
    last_client: u64,
    attachments: BTreeMap<u32, Arc<ClientAttachment>>,
    /// Whether the listener has been ended, and its thread has not noticed yet.
    pub(super) is_leaving: bool,
    /// Whether the agent stays without clients.
    pub(super) stays: bool,
    /// Whether a client has attached something since the agent's start.
    pub(super) was_used: bool,
    /// Consumers that are being attached.
    coming: usize,
    last_attachment: u32,
    /// Attachments of a parent's clients, to be dropped when this process starts its own agent.
    inherited: Vec<Arc<ClientAttachment>>,
}

/// A connected client.
#[derive(Clone, Copy)]
pub(super) struct Session {
    pub(super) number: u64,
    pub(super) peer: Peer,
}

/// A client that has connected.
pub(super) enum Arrived {
    /// It is served, under this number.
    Served { number: u64, channel: Arc<Channel>, peer: Peer },
    /// It is not.
    Refused(Channel, Failure),
}

/// Locks the state. Forks wait meanwhile.
pub(super) fn lock() -> MutexGuard<'static, State> {
    prepare();
    unprepared()
}

/// Locks the state as forks do.
fn unprepared() -> MutexGuard<'static, State> {
    // The state is consistent after each step, so a panic under the lock does no harm.
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    const fn new() -> Self {
        Self {
            listener: None,
            process: 0,
            clients: BTreeMap::new(),
            last_client: 0,
            attachments: BTreeMap::new(),
            is_leaving: false,
            stays: true,
            was_used: false,
            coming: 0,
            last_attachment: 0,
            inherited: Vec::new(),
        }
    }

    /// Accepts a client. Under the lock, so that no forked child has a descriptor of which it knows
    /// nothing.
    pub(super) fn accept(&mut self, listener: &Listener) -> io::Result<Option<Arrived>> {
        let Some(channel) = listener.accept()? else { return Ok(None) };
        let peer = channel.peer()?;
        if !peer.is_allowed() {
            let message = "only processes of the program's user, or of root, may ask it";
            return Ok(Some(Arrived::Refused(channel, Failure::new(FailureKind::Denied, message))));
        }
        if self.clients.len() >= MOST_CLIENTS {
            let message = format!("{MOST_CLIENTS} clients are connected, which is the most; end one of them");
            return Ok(Some(Arrived::Refused(channel, Failure::new(FailureKind::Limit, message))));
        }
        self.last_client += 1;
        let (number, channel) = (self.last_client, Arc::new(channel));
        self.clients.insert(number, Arc::clone(&channel));
        Ok(Some(Arrived::Served { number, channel, peer }))
    }

    /// Returns the channels of all clients but one.
    pub(super) fn others(&self, client: u64) -> Vec<Arc<Channel>> {
        self.clients.iter().filter(|(number, _)| **number != client).map(|(_, it)| Arc::clone(it)).collect()
    }

    /// Returns the client of this process, if it has attached anything.
    pub(super) fn client_of(&self, process: u32) -> Option<(u64, Arc<Channel>)> {
        let (number, channel) =
            self.clients.iter().find(|(_, it)| it.peer().is_ok_and(|it| it.pid == process))?;
        self.has_attachments_of(*number).then(|| (*number, Arc::clone(channel)))
    }

    pub(super) fn clients(&self) -> usize {
        self.clients.len()
    }

    pub(super) fn is_connected(&self, client: u64) -> bool {
        self.clients.contains_key(&client)
    }

    /// Reserves room for the consumers of an attachment. [`add`](Self::add) or
    /// [`give_up`](Self::give_up) follows.
    pub(super) fn reserve(&mut self, consumers: usize) -> Result<(), Failure> {
        if self.is_leaving {
            return Err(Failure::new(FailureKind::Denied, "another client ends the agent at this moment"));
        }
        let there = self.coming + self.all().map(|it| it.consumers.len()).sum::<usize>();
        if consumers > MOST_CONSUMERS.saturating_sub(there) {
            let message = format!(
                "clients have {there} consumers, and may have {MOST_CONSUMERS}, so there is no room for \
                 {consumers} more; detach some, or let one consumer have several selectors: `a, b=count`"
            );
            return Err(Failure::new(FailureKind::Limit, message));
        }
        self.coming += consumers;
        Ok(())
    }

    pub(super) fn give_up(&mut self, consumers: usize) {
        self.coming -= consumers;
    }

    /// Adds an attachment, for which there is room, and returns it.
    pub(super) fn add(&mut self, make: impl FnOnce(u32) -> ClientAttachment) -> Arc<ClientAttachment> {
        loop {
            self.last_attachment = self.last_attachment.checked_add(1).unwrap_or(1);
            if !self.attachments.contains_key(&self.last_attachment) {
                break;
            }
        }
        let attachment = Arc::new(make(self.last_attachment));
        self.was_used = true;
        self.give_up(attachment.consumers.len());
        self.attachments.insert(self.last_attachment, Arc::clone(&attachment));
        attachment
    }

    /// Returns an attachment that this client may use: its own one, or one that was kept.
    pub(super) fn find(&self, id: u32, client: u64) -> Result<Arc<ClientAttachment>, Failure> {
        let Some(found) = self.attachments.get(&id) else {
            return Err(Failure::new(FailureKind::Unknown, format!("there is no attachment {id}")));
        };
        if found.client != client && !found.is_kept() {
            let message =
                format!("attachment {id} belongs to process {}, which is connected", found.peer.pid);
            return Err(Failure::new(FailureKind::Denied, message));
        }
        Ok(Arc::clone(found))
    }

    pub(super) fn remove(&mut self, id: u32) {
        self.attachments.remove(&id);
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<ClientAttachment>> {
        self.attachments.values()
    }

    /// Returns the attachments that end with a client's connection.
    pub(super) fn left_by(&self, client: u64) -> Vec<Arc<ClientAttachment>> {
        self.all().filter(|it| it.client == client && !it.is_kept()).cloned().collect()
    }

    /// Returns whether this client has attached anything.
    pub(super) fn has_attachments_of(&self, client: u64) -> bool {
        self.all().any(|it| it.client == client)
    }

    /// Ends a client's connection. An agent that was brought for clients goes with the last one,
    /// once one has attached something: others may come before the one for which it was brought.
    pub(super) fn leave(&mut self, client: u64) {
        self.clients.remove(&client);
        if !self.stays && self.was_used && self.clients.is_empty() && self.attachments.is_empty() {
            self.end();
        }
    }

    /// Ends the listener, whose thread notices. Returns whether there is one that can be ended.
    pub(super) fn end(&mut self) -> bool {
        let has_ended = self.listener.as_ref().is_some_and(|it| it.end());
        self.is_leaving |= has_ended;
        has_ended
    }

    /// Takes out the sockets of the process that this one was forked from. Its attachments stay
    /// until this process starts an agent: dropping them would call the dynamic linker.
    pub(super) fn inherit(&mut self) -> (Option<Arc<Listener>>, Vec<Arc<Channel>>) {
        self.coming = 0;
        self.is_leaving = false;
        self.inherited.extend(mem::take(&mut self.attachments).into_values());
        let clients = mem::take(&mut self.clients).into_values();
        (self.listener.take(), clients.collect())
    }

    pub(super) fn inherited(&mut self) -> Vec<Arc<ClientAttachment>> {
        mem::take(&mut self.inherited)
    }
}

thread_local! {
    static ACROSS_FORK: Kept<MutexGuard<'static, State>> = const { Kept::new() };
}

/// Forks take the state's lock.
static READY: Ready = room(Rank::Outermost, ACROSS_FORKS, || ());

const ACROSS_FORKS: AcrossForks =
    AcrossForks { before: before_fork, in_parent: after_fork, in_child: after_fork_in_child };

fn prepare() {
    control::init();
    READY.prepare();
}

/// Gets ready for threads that stay.
pub(super) fn require() -> Result<(), Error> {
    control::init();
    READY.require().map_err(|it| Error::Unpinned { object: it.object, reason: it.reason })
}

fn before_fork() {
    let state = unprepared();
    ACROSS_FORK.with(|kept| kept.keep(state));
}

fn after_fork() {
    drop(ACROSS_FORK.with(Kept::take));
}

fn after_fork_in_child() {
    if let Some(mut state) = ACROSS_FORK.with(Kept::take) {
        close_inherited(&mut state);
    }
}

/// Closes the sockets of the process that this one was forked from. Otherwise clients would wait
/// for answers after that process has ended.
pub(super) fn close_inherited(state: &mut State) {
    let (listener, channels) = state.inherit();
    // The program may have closed some, and have other files by their numbers.
    let of_listener = listener.iter().filter(|it| it.is_open()).map(|it| it.as_fd());
    let of_clients = channels.iter().filter(|it| it.is_open()).map(|it| it.as_fd());
    for descriptor in of_listener.chain(of_clients).map(|it| it.as_raw_fd()) {
        // SAFETY: the threads that use it, and would close it, are the parent's.
        unsafe { libc::close(descriptor) };
    }
    // Their descriptors are closed.
    mem::forget((listener, channels));
}
