//! The answers to requests.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use probe_protocol::{
    Attach, Attached, AttachedConsumer, AttachmentInfo, Body, Done, FailureKind, Request, Status, writable,
};

use super::attachments::ClientAttachment;
use super::out::{Out, Session};
use super::state::lock;
use super::stop::{Stop, bounded, bounded_lines, cut, failed};
use super::{listing, reporting, threads};
use crate::control;
use crate::dispatch::lost_hits;
use crate::spec::{Opened, SpecAttachment, attach_for_client};

/// Bytes of an attachment's text that a list of all has.
const SPEC: usize = 1000;

/// Answers a request. Returns the end of the answer; parts before it are sent already.
pub(super) fn answer(
    session: Session,
    request: Request,
    file: Option<OwnedFd>,
    out: &Out<'_>,
) -> Result<Body, Stop> {
    let client = session.number;
    let found = |id| lock().find(id, client);
    if file.is_some() && !matches!(request, Request::Attach(_) | Request::Snapshot { .. }) {
        return Err(failed(FailureKind::Protocol, "no file may come with this request"));
    }
    match request {
        Request::List { selector } => listing::list(&selector, out),
        Request::Status => Ok(Body::Status(status())),
        Request::Attach(asked) => attach(session, asked, file),
        Request::Report { attachment, consumer, format } => {
            reporting::report(&*found(attachment)?, consumer, &format, out)
        }
        Request::Snapshot { attachment, consumer, format } => {
            let file = file.map(writable).transpose()?;
            reporting::snapshot(&*found(attachment)?, consumer, &format, file)
        }
        Request::Pause { attachment } => {
            found(attachment)?.pause();
            Ok(Body::Done(Done::default()))
        }
        Request::Resume { attachment } => {
            let reports = found(attachment)?
                .consumers
                .iter()
                .map(|it| it.reported().untyped().resume())
                .collect::<Vec<_>>();
            let refused = reports.iter().filter(|it| it.refused() != 0).map(ToString::to_string);
            Ok(Body::Done(Done { notes: bounded_lines(refused) }))
        }
        Request::Detach { attachment } => {
            let found = {
                let mut state = lock();
                let found = state.find(attachment, client)?;
                drop(found);
                state.remove(attachment)
            };
            let notes = found.map(ClientAttachment::detach).unwrap_or_default();
            Ok(Body::Done(Done { notes: bounded_lines(notes) }))
        }
        Request::Keep { attachment } => {
            found(attachment)?.keep();
            Ok(Body::Done(Done::default()))
        }
        _ => Err(failed(FailureKind::Protocol, "this request is not known")),
    }
}

/// Room for an attachment, which is given back unless there is one.
struct Room(bool);

impl Room {
    fn reserve() -> Result<Self, Stop> {
        lock().reserve()?;
        Ok(Self(true))
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if self.0 {
            lock().give_up();
        }
    }
}

fn attach(session: Session, asked: Attach, file: Option<OwnedFd>) -> Result<Body, Stop> {
    let mut room = Room::reserve()?;
    let opened = match (file, &asked.output) {
        (None, None) => None,
        (Some(file), Some(name)) => Some(opened(writable(file)?, name)),
        (None, Some(_)) => return Err(failed(FailureKind::Protocol, "the output's file is missing")),
        (Some(_), None) => return Err(failed(FailureKind::Protocol, "the name of the output is missing")),
    };
    let consumers = attach_for_client(&asked.spec, opened.as_ref())?;
    room.0 = false;
    let Session { number, peer } = session;
    let added = lock().add(|id| ClientAttachment::new(id, asked.spec, number, peer, asked.keep, consumers));
    let consumers = added.consumers.iter().map(attached).collect();
    Ok(Body::Attached(Attached { id: added.id, consumers }))
}

fn opened(file: File, name: &str) -> Opened {
    Opened { file: Arc::new(file), name: name.into() }
}

fn attached(consumer: &SpecAttachment) -> AttachedConsumer {
    let untyped = consumer.reported().untyped();
    let report = untyped.report();
    let is_whole = report.refused() == 0 && report.unmatched().is_empty();
    AttachedConsumer {
        selector: cut(consumer.selector().to_owned(), SPEC),
        consumer: consumer.consumer().to_owned(),
        formats: consumer.formats().iter().map(|it| it.ending().to_owned()).collect(),
        probes: untyped.probe_count() as u64,
        sites: (report.patched() + report.unchanged()) as u64,
        refused: report.refused() as u64,
        notes: if is_whole { Vec::new() } else { vec![bounded(report.to_string())] },
    }
}

fn status() -> Status {
    let (clients, attachments, own) = {
        let state = lock();
        let info = |it: &Arc<ClientAttachment>| AttachmentInfo {
            id: it.id,
            spec: cut(it.spec.clone(), SPEC),
            is_kept: it.is_kept(),
            client: it.peer.pid,
            is_connected: state.is_connected(it.client),
            milliseconds: it.since.elapsed().as_millis().try_into().unwrap_or(u64::MAX),
        };
        let own: usize = state.all().map(|it| it.consumers.len()).sum();
        (state.clients(), state.all().map(info).collect(), own)
    };
    let small = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    Status {
        probes: small(control::probe_count()),
        threads: threads().try_into().unwrap_or(u32::MAX),
        clients: small(clients),
        attachments,
        of_program: small(control::attachment_count().saturating_sub(own)),
        lost_hits: lost_hits(),
        unreadable_records: control::unreadable_records() as u64,
        unreadable_objects: bounded_lines(control::unreadable_objects()),
    }
}
