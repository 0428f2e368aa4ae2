//! `attach` and `detach`: an agent for a running program, and its end.

use probe_protocol::ClientError;

use crate::args::{AttachTo, Detach};
use crate::inject::inject;
use crate::live::{Program, connect};
use crate::output::{Failure, Output, document_without_rows, object};

pub(super) fn run(args: &AttachTo, is_json: bool) -> Result<Output, Failure> {
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
    let program = match (args.pid, &args.name) {
        (Some(pid), _) => Program::connect(pid),
        (_, Some(name)) => Program::connect_by_name(name),
        _ => Err(Failure::Usage("give a process by `-p PID` or `-n NAME`".to_owned())),
    }?;
    let pid = program.process.pid;
    let notes = program.end_agent()?;
    let done = "the agent is gone, and all its sites are latent";
    Ok(Output { notes, ..Output::text(about_process("detach", pid, done, is_json)?) })
}
