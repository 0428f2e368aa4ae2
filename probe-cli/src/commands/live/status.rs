//! `status`: a running program's probes, clients and attachments.

use std::fmt::Write;

use probe_protocol::{AttachmentInfo, Hello, OwnRules, Status};
use probe_runtime::__tools::Table;

use super::measure::connect_running;
use crate::args;
use crate::output::{Failure, Output, document, object};
use crate::table_width::draw_for_stdout;
use crate::text::{count, escape};

pub(super) fn run(args: &args::Status, is_json: bool) -> Result<Output, Failure> {
    let mut program = connect_running(&args.running)?;
    let hello = program.client.hello().clone();
    let status = program.client.status()?;
    if is_json {
        return Ok(Output::text(as_json(&hello, &status)?));
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
        let _ = writeln!(text, "{}", draw_for_stdout(&table(&status.attachments)));
    }
    let mut notes = Vec::new();
    if status.lost_hits != 0 {
        notes.push(format!("{} could not be delivered", count(status.lost_hits, "hit")));
    }
    if status.unreadable_records != 0 {
        notes.push(format!("{} can't be read", count(status.unreadable_records, "record")));
    }
    let unread = status.unreadable_objects.iter();
    notes.extend(unread.map(|object| format!("{object} has probes of a later version of probe-runtime")));
    Ok(Output { notes, ..Output::text(text) })
}

fn table(attachments: &[AttachmentInfo]) -> Table {
    let mut table = Table::new(&["attachment", "seconds", "client", "kept", "consumers"]);
    for it in attachments {
        table.row(vec![
            it.id.to_string(),
            format!("{}.{}", it.milliseconds / 1000, it.milliseconds % 1000 / 100),
            if it.is_connected { it.client.to_string() } else { "gone".to_owned() },
            if it.is_kept { "yes" } else { "no" }.to_owned(),
            escape(&it.spec).into_owned(),
        ]);
    }
    table
}

fn as_json(hello: &Hello, status: &Status) -> Result<String, Failure> {
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
