//! What a child process does: attaches, works, and prints a line for each function that a report shows.
//!
//! The driver of another crate is compiled with this file, too: it needs `probe-runtime` and nothing else.

use probe_runtime::{Count, Error, Kind, Profiler, TextPolicy, select};

/// Says what a child attaches. Its arguments are the program's name, the amount of work, and the path of the input.
pub const VARIABLE: &str = "PROBE_BENCH_COVERAGE";
pub const COUNT: &str = "count";
pub const PROFILE: &str = "profile";

/// Works while each call is counted, or while the profiler is at work with its defaults.
///
/// Prints a function's file, line and path, its calls, and their error, in the whole numbers that tables show: tabs between.
pub fn run(by: &str, probes: &str, work: impl FnOnce()) -> Result<(), Error> {
    let probes = select(probes)?.text(TextPolicy::Open);
    if by == COUNT {
        let counted = probes.attach(Count::new())?;
        work();
        let counts = counted.counts();
        for it in counts.iter().filter(|it| it.probe.kind() == Kind::Entry && it.hits > 0) {
            println!("{}:{} {}\t{}\t0", it.probe.file(), it.probe.line(), it.probe.path(), it.hits);
        }
    } else {
        let profiler = probes.attach(Profiler::new())?;
        work();
        let profile = profiler.profile();
        for it in profile.iter().filter(|it| it.calls().value > 0.0) {
            let (function, calls) = (it.function(), it.calls());
            let name = format_args!("{}:{} {}", function.file(), function.line(), function.path());
            println!("{name}\t{:.0}\t{:.0}", calls.value, calls.error);
        }
    }
    Ok(())
}
