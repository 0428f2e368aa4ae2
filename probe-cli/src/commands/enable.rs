//! `enable` and `disable`: attachments that stay for a while.

use std::fmt::Write;

use probe_protocol::Attach;
use probe_runtime::Selector;

use super::measure::{notes, report, running, written};
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
    if !args.keep && watch(&mut program.client, &stop, None, None, |_, _| Ok(()))? == Watched::Stopped {
        let many = u32::try_from(attached.consumers.len()).unwrap_or_default();
        for consumer in 0..many {
            text.push_str(&last(&mut program.client, attached.id, consumer, is_json)?);
        }
    }
    Ok(Shown { notes, ..Shown::text(text) })
}

pub(super) fn disable(args: &Disable, is_json: bool) -> Result<Shown, Failure> {
    let mut program = running(&args.running)?;
    let status = program.client.status().map_err(|error| failure(&error))?;
    let kept = status.attachments.iter().filter(|it| it.is_kept).map(|it| it.id);
    let ids: Vec<_> = if args.attachments.is_empty() { kept.collect() } else { args.attachments.clone() };
    let mut text = String::new();
    let mut notes = Vec::new();
    for id in &ids {
        program.client.pause(*id).map_err(|error| failure(&error))?;
        let mut consumer = 0;
        // An attachment has one consumer or several; the number is known to who attached it.
        while let Ok(report) = last(&mut program.client, *id, consumer, is_json) {
            text.push_str(&report);
            consumer += 1;
        }
        notes.extend(program.client.detach(*id).map_err(|error| failure(&error))?);
    }
    notes.push(format!("{} detached", count(ids.len() as u64, "attachment")));
    Ok(Shown { notes, ..Shown::text(text) })
}

fn last(
    client: &mut probe_protocol::Client,
    attachment: u32,
    consumer: u32,
    is_json: bool,
) -> Result<String, Failure> {
    let format = if is_json { "json" } else { "txt" };
    Ok(report(client, attachment, consumer, format)?.unwrap_or_default())
}
