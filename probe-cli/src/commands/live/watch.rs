//! `watch`: rules on a running program.

use std::fs;

use probe_lang::rules::{Engine, RuleError, rule, rules};

use super::measure::connect_or_start;
use crate::args;
use crate::live::{Stop, WatchEnd};
use crate::output::{Failure, Output};
use crate::watch::{Log, Watch};

pub(super) fn run(args: &args::Watch, is_json: bool) -> Result<Output, Failure> {
    let usage = |error: RuleError| Failure::Usage(error.to_string());
    let mut all = Vec::new();
    for text in &args.rules {
        all.push(rule(text).map_err(usage)?);
    }
    for file in &args.files {
        let name = file.display();
        let text = fs::read_to_string(file);
        let text = text.map_err(|error| Failure::Input(format!("{name} can't be read: {error}")))?;
        let of_file = rules(&name.to_string(), &text).map_err(usage)?;
        if of_file.is_empty() {
            return Err(Failure::Usage(format!("{name} has no rule")));
        }
        all.extend(of_file);
    }
    let engine = Engine::new(all).map_err(usage)?;
    let stop = Stop::on_signals()?;
    let program = connect_or_start(&args.target, &stop)?;
    let mut watch = Watch::new(program, engine, Log::stdout(is_json), stop.clone());
    watch.start()?;
    watch.run(args.every, args.time)?;
    let process = watch.finish()?;
    Ok(Output::notes(if stop.is_set() { Vec::new() } else { process.finish(WatchEnd::Disconnected) }))
}
