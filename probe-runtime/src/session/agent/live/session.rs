//! A client's connection, on a thread of its own.
//!
//! The thread waits for requests. While its client has attached something, it also looks for probes
//! that have appeared, 300 ms after the last request or look: these join, although nothing in the
//! program says that an object was loaded. A client that asks more often causes no such looks.

use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process;
use std::sync::Arc;
use std::thread;

use probe_protocol::{
    Body, Call, Channel, ChannelError, Failure, FailureKind, Hello, Peer, ReceivedFrame, after_greeting,
    decode_call, encode_welcome,
};

use super::answer::{Out, Stop, bounded, refuse};
use super::attachments::detach;
use super::state::{Session, lock};
use super::{PATIENCE, requests, say};
use crate::engine::control::{DISCOVERY_INTERVAL, PeriodicDiscovery, discover_probes};
use crate::engine::os::signal_mask::SignalsBlocked;
use crate::engine::os::{self, time};

/// The thread's name.
const NAME: &str = "probe-client";

/// Ends the connection, and the client's attachments, however the thread ends.
struct Connection {
    session: Session,
    channel: Arc<Channel>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        // A process that was forked meanwhile may have the descriptor, too.
        self.channel.end();
        let left = lock().left_by(self.session.number);
        left.into_iter().flat_map(detach).for_each(|line| say(&line));
        lock().leave(self.session.number);
    }
}

/// Starts the thread of a client.
pub(super) fn start(number: u64, channel: &Arc<Channel>, peer: Peer) {
    let (session, of_thread) = (Session { number, peer }, Arc::clone(channel));
    let _masked = SignalsBlocked::new();
    let serve = move || serve(&Connection { session, channel: of_thread });
    if let Err(error) = thread::Builder::new().name(NAME.to_owned()).spawn(serve) {
        let message = format!("the program can't start a thread: {error}");
        refuse(channel, Failure::new(FailureKind::Limit, message));
        // It has attached nothing.
        lock().leave(number);
    }
}

fn serve(connection: &Connection) {
    let Connection { session, channel } = connection;
    let ended = greet(channel).and_then(|()| {
        // The first one may take ten seconds: see `listening`. A client waits longer for an answer
        // than for a greeting. No operation of the program waits, as it would for an attachment.
        os::heavy_barrier();
        answer_all(*session, channel)
    });
    let of = session.peer.pid;
    match ended {
        Ok(()) | Err(ChannelError::Ended) => (),
        Err(ChannelError::TimedOut) => say(&format!(
            "process {of} did not finish a request, or did not read an answer, for {} s; it is disconnected",
            PATIENCE.as_secs()
        )),
        Err(error) => say(&format!("process {of} is disconnected: {error}")),
    }
}

fn greet(channel: &Channel) -> Result<(), ChannelError> {
    let Some(greeting) = channel.receive(Some(PATIENCE), PATIENCE)? else {
        return Err(ChannelError::Ended);
    };
    let welcome = match after_greeting(&greeting.payload) {
        Ok(_) => Ok(hello()),
        Err(error) => Err(Failure::new(FailureKind::Protocol, error.to_string())),
    };
    channel.send(&encode_welcome(&welcome), None, PATIENCE)?;
    if welcome.is_err() { Err(ChannelError::Ended) } else { Ok(()) }
}

fn hello() -> Hello {
    let executable = env::current_exe().unwrap_or_default().display().to_string();
    Hello {
        runtime: env!("CARGO_PKG_VERSION").to_owned(),
        pid: process::id(),
        executable: bounded(executable),
    }
}

/// Answers one request after another, until the client ends the connection.
fn answer_all(session: Session, channel: &Channel) -> Result<(), ChannelError> {
    let mut told = time::thread_cpu();
    let mut discovery = None;
    loop {
        while lock().has_attachments_of(session.number) {
            if channel.wait_readable(DISCOVERY_INTERVAL)? {
                break;
            }
            discover_probes();
            // It is no part of an answer.
            told = time::thread_cpu();
        }
        let ReceivedFrame { payload, file } = match channel.receive(None, PATIENCE) {
            Ok(Some(received)) => received,
            Ok(None) => return Ok(()),
            Err(ChannelError::Frame(error)) => return malformed(channel, &error.to_string()),
            Err(error) => return Err(error),
        };
        let Ok(Call { id, request }) = decode_call(&payload) else {
            return malformed(channel, "the request can't be read");
        };
        let out = Out { channel, id };
        // A program's own consumers may run here.
        let answered = catch_unwind(AssertUnwindSafe(|| requests::answer(session, request, file, &out)));
        let mut body = match answered {
            Ok(Ok(body)) => body,
            Ok(Err(Stop::Failed(failure))) => Body::Failed(failure),
            Ok(Err(Stop::Channel(error))) => return Err(error),
            Err(_) => {
                let message = "the consumer panicked; the program's stderr says more";
                Body::Failed(Failure::new(FailureKind::Internal, message))
            }
        };
        if let Body::Done(done) = &mut body {
            let used = time::thread_cpu();
            done.cpu_ns = used.saturating_sub(std::mem::replace(&mut told, used));
        }
        // From the answer on, which says that something is attached.
        let has_attachments = lock().has_attachments_of(session.number);
        discovery = has_attachments.then(|| discovery.take().unwrap_or_else(PeriodicDiscovery::begin));
        out.last(body)?;
    }
}

/// Tells the client, which need not read it, and ends: the rest of the stream can't be read.
fn malformed(channel: &Channel, problem: &str) -> Result<(), ChannelError> {
    let failure = Failure::new(FailureKind::Protocol, problem);
    Out { channel, id: 0 }.last(Body::Failed(failure))
}
