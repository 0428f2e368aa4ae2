//! `enable` and `disable`: attachments that stay for a while; and `status`, which lists them.

use std::fmt::Write;

use probe_lang::Selector;
use probe_protocol::{Attach, Attached, AttachmentInfo, Client, ClientError, FailureKind, Hello, OwnRules};
use probe_report::{Table, View};
use serde_json::value::RawValue;

use super::measure::{AnswerProgress, connect_running};
use crate::args::{Disable, Enable, Status};
use crate::live::{Schedule, Screen, Shown, Stop, WatchEnd, attachment_notes, watch};
use crate::output::{Failure, Output, document, map_pipe_error, object};
use crate::terminal_width::{draw, stdout_width};
use crate::text::{count, escape};

pub(super) fn enable(args: &Enable, is_json: bool) -> Result<Output, Failure> {
    let stop = Stop::on_signals()?;
    let mut program = connect_running(&args.running)?;
    // A text that is a selector has no consumer.
    let is_selector = Selector::parse(&args.spec).is_ok();
    let spec = if is_selector { format!("{}=count", args.spec) } else { args.spec.clone() };
    let attach = Attach { keep: args.keep, ..Attach::new(spec) };
    let attached = program.client.attach(&attach)?;
    let mut notes = attachment_notes(&attached);
    if !is_json {
        // Shown at once, since the command may continue for long.
        map_pipe_error(Screen::stdout(false).finish(&Shown::View(View::text(attachment_lines(&attached)))))?;
    }
    let (mut documents, mut text) = (Vec::new(), String::new());
    if !args.keep {
        match watch(&mut program.client, &stop, None, Schedule::new(None, false), |_, _| Ok(()))? {
            WatchEnd::Stopped => {
                let _progress = AnswerProgress::of(&program).wait();
                program.client.pause(attached.id)?;
                if is_json {
                    let formats = attached.consumers.iter().map(|it| &it.formats[..]);
                    documents = last_documents(&mut program.client, attached.id, formats)?;
                } else {
                    text = last_text(&mut program.client, attached.id, attached.consumers.len())?;
                }
            }
            WatchEnd::Disconnected => {
                notes.push(format!("{}, and there are no reports", program.end_reason()));
            }
        }
    }
    if !is_json {
        return Ok(Output { notes, ..Output::text(text) });
    }
    let mut documents = documents.into_iter();
    let mut rows = Vec::new();
    for it in &attached.consumers {
        rows.push(object! {
            consumer: &it.consumer,
            selector: &it.selector,
            probes: it.probes,
            active: it.sites,
            refused: it.refused,
            // `null` while the consumer continues, if the program has ended, and for a flight
            // recorder.
            report: documents.next().flatten(),
        });
    }
    let pid = program.process.pid;
    let members = object! { pid: pid, attachment: attached.id, kept: args.keep };
    Ok(Output { notes, ..Output::text(document("enable", &members, rows)?) })
}

/// Returns a line for each consumer.
fn attachment_lines(attached: &Attached) -> String {
    let mut lines = String::new();
    for consumer in &attached.consumers {
        let (probes, sites) = (count(consumer.probes, "probe"), count(consumer.sites, "site"));
        // Writing to a string never fails.
        let _ = writeln!(
            lines,
            "attachment {}: {} on {probes}, {sites} active, {} refused",
            attached.id, consumer.consumer, consumer.refused
        );
    }
    lines
}

pub(super) fn disable(args: &Disable, is_json: bool) -> Result<Output, Failure> {
    let mut program = connect_running(&args.running)?;
    let (pid, asked) = (program.process.pid, AnswerProgress::of(&program));
    let client = &mut program.client;
    let status = client.status()?;
    let kept = status.attachments.iter().filter(|it| it.is_kept).map(|it| it.id);
    let ids: Vec<_> = if args.attachments.is_empty() { kept.collect() } else { args.attachments.clone() };
    let (mut rows, mut text) = (Vec::new(), String::new());
    // After an error, the attachments before it are still shown and detached.
    let read: Result<(), Failure> = ids.iter().try_for_each(|id| {
        let _progress = asked.wait();
        client.pause(*id)?;
        let known = status.attachments.iter().find(|it| it.id == *id);
        let consumers = known.map_or(&[][..], |it| &it.consumers);
        let mut row = Vec::new();
        if is_json {
            let documents = last_documents(client, *id, consumers.iter().map(|it| &it.formats[..]))?;
            for (it, report) in consumers.iter().zip(documents) {
                row.push(object! { consumer: it.name.clone(), report: report });
            }
        } else {
            text += &last_text(client, *id, consumers.len())?;
        }
        rows.push(object! { attachment: *id, spec: known.map(|it| it.spec.clone()), consumers: row });
        Ok(())
    });
    let done: Vec<_> = rows.iter().map(|it| it.attachment).collect();
    if is_json {
        text = document("disable", &object! { pid: pid }, rows)?;
    }
    // Reports are written before their attachments go, so that an error of detaching loses none.
    let shown = if is_json { Shown::Json(text) } else { Shown::View(View::text(text)) };
    map_pipe_error(Screen::stdout(is_json).finish(&shown))?;
    let mut notes = Vec::new();
    for id in &done {
        notes.extend(client.detach(*id)?);
    }
    read?;
    notes.push(format!("{} detached", count(done.len() as u64, "attachment")));
    Ok(Output::notes(notes))
}

/// Returns the reports of an attachment's consumers for people.
fn last_text(client: &mut Client, attachment: u32, consumers: usize) -> Result<String, Failure> {
    let mut text = String::new();
    for (consumer, _) in (0..).zip(0..consumers) {
        text += &draw(client.view(attachment, consumer)?.values, stdout_width());
    }
    Ok(text)
}

/// Returns the reports of an attachment's consumers as parts of a document, given the formats of
/// each. A consumer may lack JSON, as a flight recorder does.
fn last_documents<'a>(
    client: &mut Client,
    attachment: u32,
    consumers: impl Iterator<Item = &'a [String]>,
) -> Result<Vec<Option<Box<RawValue>>>, Failure> {
    let mut documents = Vec::new();
    for (consumer, formats) in (0..).zip(consumers) {
        let has_json = formats.iter().any(|it| it == "json");
        documents.push(match has_json.then(|| client.report(attachment, consumer, "json")) {
            None => None,
            // A report that only goes to files.
            Some(Err(ClientError::Failed(failure))) if failure.kind == FailureKind::Malformed => None,
            Some(report) => Some(
                RawValue::from_string(report?.text)
                    .map_err(|error| Failure::Input(format!("the program's report is no JSON: {error}")))?,
            ),
        });
    }
    Ok(documents)
}

pub(super) fn status(args: &Status, is_json: bool) -> Result<Output, Failure> {
    let mut program = connect_running(&args.running)?;
    let hello = program.client.hello().clone();
    let status = program.client.status()?;
    if is_json {
        return Ok(Output::text(status_json(&hello, &status)?));
    }
    let mut text = format!(
        "{} (process {}), probe-runtime {}\n{}, {}, {}\n",
        escape(&hello.executable),
        hello.pid,
        escape(&hello.runtime),
        count(status.probes.into(), "probe"),
        count(status.threads.into(), "thread"),
        count(status.clients.into(), "client"),
    );
    // Writing to a string never fails.
    if status.of_program != 0 {
        let _ = writeln!(text, "{} of the program's own", count(status.of_program.into(), "attachment"));
    }
    if let Some(OwnRules { file, rules, firings }) = &status.rules {
        let (rules, firings) = (count((*rules).into(), "rule"), count(*firings, "firing"));
        let _ = writeln!(text, "{rules} of {}, {firings}", escape(file));
    }
    if !status.attachments.is_empty() {
        text += &draw(View::table(attachment_table(&status.attachments)), stdout_width());
    }
    let mut notes = Vec::new();
    if status.lost_hits != 0 {
        notes.push(format!("{} could not be delivered", count(status.lost_hits, "hit")));
    }
    notes.extend(unreadable_notes(&status));
    Ok(Output { notes, ..Output::text(text) })
}

/// Returns notes on the probes of a program that its runtime can't read.
pub(in crate::commands) fn unreadable_notes(status: &probe_protocol::Status) -> Vec<String> {
    let records = status.unreadable_records;
    let mut notes = Vec::new();
    notes.extend((records != 0).then(|| format!("{} can't be read", count(records, "record"))));
    let objects = status.unreadable_objects.iter();
    notes.extend(objects.map(|object| format!("{object} has probes of a later version of probe-runtime")));
    notes
}

fn attachment_table(attachments: &[AttachmentInfo]) -> Table<'_> {
    let mut table = Table::new(["attachment", "seconds", "client", "kept", "consumers"]);
    for it in attachments {
        let seconds = format!("{}.{}", it.milliseconds / 1000, it.milliseconds % 1000 / 100);
        table.push(it.id).push(seconds);
        table.push(if it.is_connected { it.client.to_string() } else { "gone".to_owned() });
        table.push(if it.is_kept { "yes" } else { "no" }).push(it.spec.as_str());
    }
    table
}

fn status_json(hello: &Hello, status: &probe_protocol::Status) -> Result<String, Failure> {
    let rules = |it: &OwnRules| object! { file: it.file.clone(), rules: it.rules, firings: it.firings };
    let members = object! {
        program: &hello.executable,
        pid: hello.pid,
        runtime: &hello.runtime,
        probes: status.probes,
        threads: status.threads,
        clients: status.clients,
        of_program: status.of_program,
        lost_hits: status.lost_hits,
        unreadable_records: status.unreadable_records,
        unreadable_objects: &status.unreadable_objects,
        // `null` if the program follows none.
        rules: status.rules.as_ref().map(rules),
    };
    let rows = status.attachments.iter().map(|it| {
        object! {
            attachment: it.id,
            spec: &it.spec,
            kept: it.is_kept,
            client: it.client,
            connected: it.is_connected,
            milliseconds: it.milliseconds,
        }
    });
    document("status", &members, rows)
}
