//! `attach` and `detach`: an agent for a running program, and its end.

use probe_protocol::ClientError;

use crate::args::{AttachTo, Detach};
use crate::inject::inject;
use crate::json::Made;
use crate::live::{Program, connect};
use crate::output::{Failure, Output};

pub(super) fn run(args: &AttachTo, is_json: bool) -> Result<Output, Failure> {
    let pid = args.pid;
    let said = match connect(pid) {
        Ok(mut client) => {
            client.keep_agent()?;
            format!("an agent serves {} already", client.path().display())
        }
        Err(ClientError::NoAgent { .. }) => inject(pid, args.agent.as_deref(), args.plugins, true)?,
        Err(error) => return Err(error.into()),
    };
    if is_json {
        return Ok(Output::text(Made::to_process("attach", pid, &said).document()?));
    }
    Ok(Output::text(format!("process {pid}: {said}\n")))
}

pub(super) fn detach(args: &Detach, is_json: bool) -> Result<Output, Failure> {
    let program = match (args.which.pid, &args.which.name) {
        (Some(pid), _) => Program::connect(pid),
        (_, Some(name)) => Program::connect_by_name(name),
        _ => Err(Failure::Usage("give a process by `-p PID` or `-n NAME`".to_owned())),
    }?;
    let pid = program.process.pid;
    let notes = program.end_agent()?;
    let said = "the agent is gone, and all its sites are latent";
    let text = if is_json {
        Made::to_process("detach", pid, said).document()?
    } else {
        format!("process {pid}: {said}\n")
    };
    Ok(Output { notes, ..Output::text(text) })
}
