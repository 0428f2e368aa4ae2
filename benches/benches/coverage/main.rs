//! `coverage`: whether the calls that the sampling profiler shows are as sure as it says, over many runs of programs that do the same each time.
//!
//! Each run is a process of its own, with the profiler at its defaults. The truth is what `Count` has in another process. A row is
//! *exact* if its error is shown as 0; of the others, 95 in 100 ought to have the truth within their error.

use std::env;
use std::process::ExitCode;

use probe_benches::IS_PATCHED;

mod deflate;
mod made;
mod many;
mod outline;
mod program;
mod runs;
mod watched;

fn main() -> ExitCode {
    if !IS_PATCHED {
        println!("sites are not patched in this build");
        return ExitCode::SUCCESS;
    }
    let Ok(by) = env::var(watched::VARIABLE) else {
        runs::compare();
        return ExitCode::SUCCESS;
    };
    match program::child(&by) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
