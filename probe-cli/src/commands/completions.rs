//! `completions` and `man`: what the command line is, for shells and for people.

use clap::CommandFactory;

use crate::args::{Arguments, Completions, Man};
use crate::output::{Failure, Output};

pub(super) fn completions(completions: &Completions) -> Output {
    let mut out = Vec::new();
    clap_complete::generate(completions.shell, &mut Arguments::command(), "probectl", &mut out);
    Output::text(String::from_utf8_lossy(&out).into_owned())
}

pub(super) fn man(man: &Man) -> Result<Output, Failure> {
    let mut command = Arguments::command();
    command.build();
    if let Some(name) = &man.command {
        let found = command.find_subcommand(name).cloned();
        let unknown = || Failure::Usage(format!("there is no command `{name}`; see `probectl help`"));
        command = found.ok_or_else(unknown)?;
    }
    let mut out = Vec::new();
    clap_mangen::Man::new(command).render(&mut out).map_err(Failure::input)?;
    Ok(Output::text(String::from_utf8_lossy(&out).into_owned()))
}
