//! `enable` and `disable`: attachments that stay for a while.

use std::fmt::Write;

use probe_protocol::{Attach, Client, ClientError, FailureKind};
use probe_runtime::Selector;

use super::measure::{Asked, notes, running, written};
use crate::args::{Disable, Enable};
use crate::live::{Screen, Stop, Watched, failure, watch};
use crate::output::{Failure, Shown};
use crate::text::count;

pub(super) fn run(args: &Enable, is_json: bool) -> Result<Shown, Failure> {
    let stop = Stop::on_signals()?;
    let mut program = running(&args.running)?;
    // A text that is a selector has no consumer.
    let is_selector = Selector::parse(&args.spec).is_ok();
    let spec = if is_selector { format!("{}=count", args.spec) } else { args.spec.clone() };
    let attach = Attach { keep: args.keep, ..Attach::new(spec) };
    let attached = program.client.attach(&attach).map_err(|error| failure(&error))?;
    let mut said = String::new();
    for consumer in &attached.consumers {
        let (probes, sites) = (count(consumer.probes, "probe"), count(consumer.sites, "site"));
        // Writing to a string never fails.
        let _ = writeln!(
            said,
            "attachment {}: {} on {probes}, {sites} active, {} refused",
            attached.id, consumer.consumer, consumer.refused
        );
    }
    let mut notes = notes(&attached);
    let mut text = String::new();
    if is_json {
        notes.extend(said.lines().map(str::to_owned));
    } else {
        // Somebody may wait for it.
        written(Screen::stdout(false).finish(&said))?;
    }
    if !args.keep {
        match watch(&mut program.client, &stop, None, None, |_, _| Ok(()))? {
            Watched::Stopped => {
                let _progress = Asked::of(&program).wait();
                program.client.pause(attached.id).map_err(|error| failure(&error))?;
                let formats = attached.consumers.iter().map(|it| &it.formats[..]);
                text = reports(&mut program.client, attached.id, formats, is_json)?.concat();
            }
            Watched::Ended => notes.push(format!("{}, and there are no reports", program.end())),
        }
    }
    Ok(Shown { notes, ..Shown::text(text) })
}

pub(super) fn disable(args: &Disable, is_json: bool) -> Result<Shown, Failure> {
    let mut program = running(&args.running)?;
    let status = program.client.status().map_err(|error| failure(&error))?;
    let kept = status.attachments.iter().filter(|it| it.is_kept).map(|it| it.id);
    let ids: Vec<_> = if args.attachments.is_empty() { kept.collect() } else { args.attachments.clone() };
    let mut screen = Screen::stdout(is_json);
    let mut notes = Vec::new();
    for id in &ids {
        let progress = Asked::of(&program).wait();
        let client = &mut program.client;
        client.pause(*id).map_err(|error| failure(&error))?;
        let known = status.attachments.iter().filter(|it| it.id == *id);
        let formats = known.flat_map(|it| &it.consumers).map(|it| &it.formats[..]);
        let reports = reports(client, *id, formats, is_json)?;
        drop(progress);
        // Each report is written before the attachment goes: an error of a later one loses nothing.
        written(screen.finish(&reports.concat()))?;
        notes.extend(client.detach(*id).map_err(|error| failure(&error))?);
    }
    notes.push(format!("{} detached", count(ids.len() as u64, "attachment")));
    Ok(Shown { notes, ..Shown::text(String::new()) })
}

/// Returns the reports of an attachment's consumers, of which each has these formats. One may lack
/// this format, as a flight recorder has none in JSON.
fn reports<'a>(
    client: &mut Client,
    attachment: u32,
    consumers: impl Iterator<Item = &'a [String]>,
    is_json: bool,
) -> Result<Vec<String>, Failure> {
    let format = if is_json { "json" } else { "txt" };
    let mut reports = Vec::new();
    for (consumer, _) in (0..).zip(consumers).filter(|(_, formats)| formats.iter().any(|it| it == format)) {
        match client.report(attachment, consumer, format) {
            Ok(report) => reports.push(report.text.trim_end().to_owned() + "\n"),
            // One that only goes to files.
            Err(ClientError::Failed(failure)) if failure.kind == FailureKind::Malformed => (),
            Err(error) => return Err(failure(&error)),
        }
    }
    Ok(reports)
}
