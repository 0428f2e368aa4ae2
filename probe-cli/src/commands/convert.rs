//! `convert`: traces for other tools.

use std::path::{Path, PathBuf};

use probe_trace::export::{Error, Format, export};

use crate::args;
use crate::call_stats::open;
use crate::new_file::NewFile;
use crate::output::{Exit, Failure, Output, document_without_rows, object};
use crate::text::count;

pub(super) fn run(args: &args::Convert, is_json: bool) -> Result<Output, Failure> {
    let (notes, exit) = convert(&args.traces, &args.out)?;
    let mut text = String::new();
    if is_json {
        let out = args.out.display().to_string();
        text = document_without_rows("convert", &object! { out: out, done: "written" })?;
    }
    Ok(Output { notes, exit, ..Output::text(text) })
}

/// Converts traces to the format that the ending of `out` tells. Returns notes on missing parts.
pub(in crate::commands) fn convert(traces: &[PathBuf], out: &Path) -> Result<(Vec<String>, Exit), Failure> {
    let format = Format::from_path(out).map_err(|error| Failure::Usage(error.to_string()))?;
    let shown = out.display();
    let unwritable = |error| Failure::Input(format!("{shown} can't be written: {error}"));
    let (mut trace, _progress) = open(traces).map_err(Failure::Input)?;
    let clocks = trace.clocks();
    let mut notes = trace.problems().to_vec();
    let mut exit = Exit::Done;
    let mut file = NewFile::create(out).map_err(unwritable)?;
    let mut items = trace.items();
    match export(format, clocks, items.by_ref(), &mut file.file) {
        Ok(()) => (),
        // The output has all that came before, and is whole.
        Err(Error::Items(error)) => {
            notes.push(format!("the trace can't be read further, so {shown} ends there: {error}"));
            exit = Exit::Input;
        }
        Err(Error::Write(error)) => return Err(unwritable(error)),
        Err(error) => return Err(Failure::input(error)),
    }
    let undefined = items.undefined();
    if undefined != 0 {
        notes.push(format!("{} of probes without a definition were left out", count(undefined, "event")));
    }
    file.finish().map_err(unwritable)?;
    Ok((notes, exit))
}
