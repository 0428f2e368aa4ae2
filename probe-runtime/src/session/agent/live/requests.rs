//! The answers to requests.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use probe_protocol::{Attach, AttachmentInfo, Body, Done, FailureKind, Request, Status, writable_file};

use super::answer::{Out, Stop, cut, done, failed};
use super::attachments::{ClientAttachment, detach};
use super::described::{SPEC, attached, info};
use super::ruling::followed;
use super::state::{Session, lock};
use super::{described, end, filtered, listing, reporting, threads};
use crate::engine::control;
use crate::engine::dispatch::lost_hits;
use crate::session::spec::{ClientSpec, Format, Opened};

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
    control::discover_probes();
    match request {
        Request::List { selector } => listing::list(&selector, out),
        Request::Status => Ok(Body::Status(status())),
        Request::Attach(asked) => attach(session, asked, file),
        Request::Report { attachment, consumer, form } => {
            reporting::report(&*found(attachment)?, consumer, &form, out)
        }
        Request::Snapshot { attachment, consumer, format } => {
            let file = file.map(writable_file).transpose()?;
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
            Ok(done(refused))
        }
        Request::Detach { attachment } => {
            let notes = detach(found(attachment)?);
            Ok(done(notes))
        }
        Request::Keep { attachment } => {
            found(attachment)?.keep();
            Ok(Body::Done(Done::default()))
        }
        Request::Shutdown { only_unused } => end::leave(session, only_unused).map(done),
        Request::KeepAgent => {
            lock().stays = true;
            Ok(Body::Done(Done::default()))
        }
        _ => Err(failed(FailureKind::Protocol, "this request is not known")),
    }
}

/// Room for this many consumers, which is given back unless they are attached.
struct Room(usize);

impl Room {
    fn reserve(consumers: usize) -> Result<Self, Stop> {
        lock().reserve(consumers)?;
        Ok(Self(consumers))
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if self.0 != 0 {
            lock().give_up(self.0);
        }
    }
}

fn attach(session: Session, asked: Attach, file: Option<OwnedFd>) -> Result<Body, Stop> {
    if let Some(problem) = filtered::refusal() {
        return Err(failed(FailureKind::Unable, problem));
    }
    let spec = ClientSpec::parse(&asked.spec)?;
    let mut room = Room::reserve(spec.len())?;
    let opened = match (file, &asked.output) {
        (None, None) => None,
        (Some(file), Some(name)) => Some(opened(writable_file(file)?, name)?),
        (None, Some(_)) => return Err(failed(FailureKind::Protocol, "the output's file is missing")),
        (Some(_), None) => return Err(failed(FailureKind::Protocol, "the name of the output is missing")),
    };
    let consumers = spec.attach(opened.as_ref())?;
    room.0 = 0;
    let Session { number, peer } = session;
    let added = lock().add(|id| ClientAttachment::new(id, asked.spec, number, peer, asked.keep, consumers));
    Ok(Body::Attached(attached(&added)))
}

/// The most bytes of an output's name: the system's for a path.
const OUTPUT: usize = 4096;

fn opened(file: File, name: &str) -> Result<Opened, Stop> {
    let problem = if Format::of_name(name, Format::RECORDED).is_none() {
        let [one, other] = Format::RECORDED.map(Format::ending);
        format!("ends neither in .{one} nor in .{other}, which chooses the format")
    } else if name.len() > OUTPUT {
        "has more than 4096 bytes".to_owned()
    } else if name.chars().any(char::is_control) {
        "has a control character".to_owned()
    } else {
        return Ok(Opened { file: Arc::new(file), name: name.into() });
    };
    Err(failed(FailureKind::Malformed, format!("the name of the output {problem}")))
}

fn status() -> Status {
    let (clients, attachments, own, rules) = {
        let state = lock();
        let of = |it: &Arc<ClientAttachment>| AttachmentInfo {
            id: it.id,
            spec: cut(it.spec.clone(), SPEC),
            is_kept: it.is_kept(),
            client: it.peer.pid,
            is_connected: state.is_connected(it.client),
            milliseconds: it.since.elapsed().as_millis().try_into().unwrap_or(u64::MAX),
            consumers: it.consumers.iter().map(info).collect(),
        };
        let own: usize = state.all().map(|it| it.consumers.len()).sum();
        (state.clients(), state.all().map(of).collect(), own, followed(&state))
    };
    let small = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    Status {
        probes: small(listing::count()),
        threads: threads().try_into().unwrap_or(u32::MAX),
        clients: small(clients),
        attachments,
        of_program: small(control::attachment_count().saturating_sub(own)),
        lost_hits: lost_hits(),
        unreadable_records: control::unreadable_records() as u64,
        unreadable_objects: described::objects(control::unreadable_objects()),
        rules,
    }
}
