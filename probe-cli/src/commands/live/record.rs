//! `record` and `snapshot`: traces of running programs, in files that are opened here.

use std::fs;
use std::path::Path;
use std::slice;
use std::sync::atomic::Ordering;
use std::time::Duration;

use probe_protocol::Attach;
use probe_trace::Trace;
use probe_trace::export::Format;

use super::measure::{connect_or_start, connect_running};
use crate::args::{Record, Snapshot};
use crate::commands::traces::convert_traces;
use crate::live::{
    Schedule, Stop, WatchEnd, attachment_notes, flight_recorders, only_flight_recorder, snapshot_format,
    unless_ended, watch,
};
use crate::output::{Exit, Failure, NewFile, Output, document_without_rows, object};
use crate::progress::Progress;
use crate::terminal_width::draw;

/// The time for the program to finish a file.
const FILE_TIMEOUT: Duration = Duration::from_secs(60);

/// The time between two updates of the progress.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

pub(super) fn run(args: &Record, is_json: bool) -> Result<Output, Failure> {
    let name = file_name(&args.out)?;
    // Programs write the second one fastest; `report` and `convert` read it.
    let [perfetto, native] = [Format::Perfetto.ending(), Trace::ENDING].map(|it| format!(".{it}"));
    let is_converted = name.ends_with(&perfetto);
    if !is_converted && !name.ends_with(&native) {
        return Err(Failure::Usage(format!("`{name}` tells no format: use `{perfetto}` or `{native}`")));
    }
    let stop = Stop::on_signals()?;
    let mut program = connect_or_start(&args.target, &stop)?;
    let out = args.out.display();
    if fs::metadata(&args.out).is_ok_and(|metadata| !metadata.is_file()) {
        return Err(Failure::Usage(format!(
            "{out} is no regular file, which a program writes from its beginning"
        )));
    }
    // Converting takes the program fifty times as long as writing, and a busy one would lose
    // events.
    let ending = if is_converted { native.as_str() } else { "" };
    let recorded_name = format!("{name}{ending}");
    let recorded = args.out.with_file_name(&recorded_name);
    let unwritable = |error| Failure::Input(format!("{} can't be written: {error}", recorded.display()));
    // An earlier file stays until the program has taken this one.
    let staged = NewFile::create(&recorded).map_err(unwritable)?;
    // The program writes all that it has before it answers the last request.
    program.client.set_timeout(FILE_TIMEOUT);
    let attach = Attach { output: Some(recorded_name.clone()), ..Attach::new(spec(args)) };
    let attached = program.client.record(&attach, &staged.file);
    let attached = attached.map_err(|error| program.failure(error))?;
    staged.finish().map_err(unwritable)?;
    let mut notes = attachment_notes(&attached);
    // A program that was started here may write to the same terminal.
    let progress = (!program.is_child())
        .then(|| Progress::start(&format!("recording to {out}"), args.time.map_or(0, milliseconds)));
    let client = &mut program.client;
    let (mut text, mut exit) = (String::new(), Exit::Done);
    let schedule = Schedule::new(Some(PROGRESS_INTERVAL), false);
    let watched = watch(client, &stop, args.time, schedule, |_, elapsed| {
        progress.iter().for_each(|it| it.done().store(milliseconds(elapsed), Ordering::Relaxed));
        Ok(())
    })?;
    if watched == WatchEnd::Stopped && unless_ended(client.pause(attached.id))?.is_some() {
        text = unless_ended(client.view(attached.id, 0))?.map(|it| draw(it.values, None)).unwrap_or_default();
        let missing = client.detach(attached.id)?;
        if !missing.is_empty() {
            exit = Exit::Input;
        }
        notes.extend(missing);
    }
    drop(progress);
    // The user knows the file by the name on the command line.
    text = text.replace(&recorded_name, &name);
    if text.is_empty() {
        notes.push(format!("{}; {out} has the events until about then", program.end_reason()));
    }
    if Trace::open(&[&recorded]).is_ok_and(|trace| trace.is_cut()) {
        exit = Exit::Input;
    }
    if is_converted {
        let (missing, converted) = convert_traces(slice::from_ref(&recorded), &args.out)
            .map_err(|error| Failure::Input(format!("{error}; the trace is {}", recorded.display())))?;
        notes.extend(missing);
        if converted != Exit::Done {
            exit = converted;
        }
        // The trace is whole, so it may stay.
        let _ = fs::remove_file(&recorded);
    }
    if !stop.is_set() {
        notes.extend(program.finish(watched));
    }
    if is_json {
        text = document_without_rows("record", &object! { out: out.to_string(), done: text.trim_end() })?;
    }
    Ok(Output { notes, exit, ..Output::text(text) })
}

/// Returns the consumer that the program attaches, in the grammar of `PROBES`.
fn spec(args: &Record) -> String {
    let of = |name, size: &Option<String>| size.as_ref().map(|size| format!("{name}={size}"));
    let also = |name: &str, is_asked_for: bool| is_asked_for.then(|| name.to_owned());
    let also = [also("threads", args.threads), also("stack", args.stack)];
    let options = [of("ring", &args.ring), of("limit", &args.limit)].into_iter().chain(also);
    let options: Vec<_> = options.flatten().collect();
    let options = if options.is_empty() { String::new() } else { format!("({})", options.join(", ")) };
    format!("{}=trace{options}", args.selector)
}

pub(super) fn snapshot(args: &Snapshot, is_json: bool) -> Result<Output, Failure> {
    let name = file_name(&args.out)?;
    let format = snapshot_format(&name)?;
    let mut program = connect_running(&args.running)?;
    let client = &mut program.client;
    let _progress = Progress::start(&format!("writing {}", args.out.display()), 0);
    let status = client.status()?;
    let (attachment, consumer) = match args.attachment {
        // If it is no recorder, the program says so.
        Some(id) => {
            flight_recorders(&status.attachments).find(|it| it.0.id == id).map_or((id, 0), |it| (id, it.1))
        }
        None => only_flight_recorder(&status.attachments)?,
    };
    let out = args.out.display();
    let unwritable = |error| Failure::Input(format!("{out} can't be written: {error}"));
    client.set_timeout(FILE_TIMEOUT);
    let staged = NewFile::create(&args.out).map_err(unwritable)?;
    let notes = client.snapshot(attachment, consumer, format, &staged.file)?;
    staged.finish().map_err(unwritable)?;
    let mut text = String::new();
    if is_json {
        text = document_without_rows("snapshot", &object! { out: out.to_string(), done: "written" })?;
    }
    Ok(Output { notes, ..Output::text(text) })
}

fn file_name(path: &Path) -> Result<String, Failure> {
    let name = path.file_name().and_then(|name| name.to_str());
    name.map(str::to_owned).ok_or_else(|| Failure::Usage(format!("{} names no file", path.display())))
}
