//! `run`: a program with the library that brings the runtime.
//!
//! The program takes the place of `probectl`, so its exit code, its signals and its terminal are
//! its own.

use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::args::Run;
use crate::output::{Failure, Output, print_note};
use crate::preload::{Preload, Starting, ask_for_agent, library};

pub(super) fn run(args: &Run) -> Result<Output, Failure> {
    let Some((program, arguments)) = args.command.split_first() else {
        return Err(Failure::Usage("a command is missing".to_owned()));
    };
    let library = library(args.agent.as_deref())?;
    let shown = program.display();
    let starting = Starting::of(program)
        .ok_or_else(|| Failure::Input(format!("{shown} can't be started: there is no such file")))?;
    let mut command = Command::new(program);
    command.args(arguments);
    let file = starting.file.display();
    let has_agent = starting.runtime.is_some_and(|it| it.has_agent);
    match &starting.obstacle {
        // Its agent needs no library.
        Some(_) if has_agent => (),
        Some(obstacle) => print_note(&format!("{file} {obstacle}")),
        None if starting.runtime.is_some() && !has_agent => print_note(&format!(
            "{file} has a runtime of its own, without the feature `agent`, so `probectl` can't ask it; `PROBES` works \
             if its `main` holds the guard of `init_from_env`"
        )),
        None => (),
    }
    let is_left_out = starting.obstacle.as_ref().is_some_and(|it| it.does_harm() || args.only);
    if is_left_out {
        ask_for_agent(&mut command);
    } else {
        Preload { library, only: args.only, plugins: args.plugins }.add_to(&mut command);
    }
    Err(Failure::Input(format!("{shown} can't be started: {}", command.exec())))
}
