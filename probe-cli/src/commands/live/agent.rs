//! `attach` and `detach`: an agent for a running program, and its end; and `run`: a program with
//! the library that brings the runtime.

use std::os::unix::process::CommandExt;
use std::process::Command;

use probe_protocol::ClientError;

use super::measure::connect_running;
use crate::args::{AttachTo, Detach, Run, Running};
use crate::inject::inject;
use crate::live::connect;
use crate::output::{Failure, Output, document_without_rows, object, print_note};
use crate::preload::{Preload, Starting, ask_for_agent, library};

pub(super) fn attach(args: &AttachTo, is_json: bool) -> Result<Output, Failure> {
    let pid = args.pid;
    let done = match connect(pid) {
        Ok(mut client) => {
            client.keep_agent()?;
            format!("an agent serves {} already", client.path().display())
        }
        Err(ClientError::NoAgent { .. }) => inject(pid, args.agent.as_deref(), args.plugins, true)?,
        Err(error) => return Err(error.into()),
    };
    Ok(Output::text(about_process("attach", pid, &done, is_json)?))
}

/// Returns a line about a process, as text or as a document.
pub(super) fn about_process(command: &str, pid: u32, done: &str, is_json: bool) -> Result<String, Failure> {
    if is_json {
        return document_without_rows(command, &object! { pid: pid, done: done });
    }
    Ok(format!("process {pid}: {done}\n"))
}

pub(super) fn detach(args: &Detach, is_json: bool) -> Result<Output, Failure> {
    let program = connect_running(&Running { pid: args.pid, name: args.name.clone(), no_inject: true })?;
    let pid = program.process.pid;
    let notes = program.end_agent()?;
    let done = "the agent is gone, and all its sites are latent";
    Ok(Output { notes, ..Output::text(about_process("detach", pid, done, is_json)?) })
}

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
