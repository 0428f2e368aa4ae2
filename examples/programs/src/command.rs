//! The command line that the programs' examples share.

use std::env;
use std::error::Error;
use std::process::ExitCode;
use std::thread;

use probe_runtime::patch::TextPolicy;
use probe_runtime::{Profiler, select};

use crate::Program;

#[derive(PartialEq, Eq, Debug)]
struct Arguments {
    work: u64,
    threads: usize,
    profiles: bool,
}

/// Runs an example with the command line `[--profile] [WORK [THREADS]]`. Attaches the consumers
/// that the environment variable `PROBES` requests, and with `--profile` a [`Profiler`] to all of
/// the program's functions. The profiler's table comes last.
pub fn main(program: &Program) -> ExitCode {
    match run(program) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}: {error}", program.name);
            ExitCode::FAILURE
        }
    }
}

fn run(program: &Program) -> Result<(), Box<dyn Error>> {
    let Arguments { work, threads, profiles } = parse(program, env::args().skip(1))?;
    let _probes = probe_runtime::init_from_env()?;
    let profiler = if profiles {
        // Rapid toggling needs text that stays writable.
        Some(select(program.probes)?.text_policy(TextPolicy::Open).attach(Profiler::new())?)
    } else {
        None
    };
    let done = (program.run)(work, threads);
    println!("{}", done.result);
    if let Some(profiler) = profiler {
        println!("\n{profiler}");
    }
    Ok(())
}

/// The largest number of threads that every system can start.
const MAX_THREADS: u32 = 1_024;

fn parse(program: &Program, words: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let threads = thread::available_parallelism().map_or(2, usize::from);
    let mut arguments = Arguments { work: program.work, threads, profiles: false };
    let mut numbers = 0;
    for word in words {
        if word == "--profile" {
            arguments.profiles = true;
            continue;
        }
        let number = word.parse().ok().filter(|number: &u32| *number > 0);
        match (numbers, number) {
            (0, Some(number)) => arguments.work = number.into(),
            (1, Some(number @ ..=MAX_THREADS)) => {
                arguments.threads = usize::try_from(number).unwrap_or(threads);
            }
            _ => {
                let unit = program.unit.to_uppercase();
                return Err(format!(
                    "what is `{word}`? Usage: {} [--profile] [{unit} [THREADS]], two numbers; at most {MAX_THREADS} threads",
                    program.name
                ));
            }
        }
        numbers += 1;
    }
    Ok(arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &str) -> Result<Arguments, String> {
        parse(&crate::nbody::PROGRAM, words.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn numbers_come_in_order() {
        let all = Arguments { work: 7, threads: 3, profiles: true };
        assert_eq!((parsed("7 3 --profile"), parsed("--profile 7 3")), (Ok(all), parsed("7 --profile 3")));
        assert_eq!(parsed("").unwrap().work, crate::nbody::PROGRAM.work);
        for wrong in ["0", "1 2 3", "--help", "-5"] {
            let error = parsed(wrong).unwrap_err();
            assert!(
                error.ends_with(
                    "Usage: nbody [--profile] [STEPS [THREADS]], two numbers; at most 1024 threads"
                ),
                "{error}"
            );
        }
    }
}
