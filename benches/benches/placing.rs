//! `placing`: time and memory that `probe_build` takes for C++ with `Sites::InstrumentFunctions`,
//! beside the compiler alone with the same flags. Three sizes show the growth.
//!
//! Each build is a process of its own: this program runs itself. `probe-build` is compiled without
//! optimisation (`profile.bench.package.probe-build`), like build scripts.

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use probe_benches::cost::{self, Cost};
use probe_benches::{Scale, figure, median};
use probe_build::{Outcome, Sites};

/// Says what the process builds: `hooks` or `sites`.
const ASKED: &str = "PROBE_BENCHES_PLACING";
const SOURCE: &str = "PROBE_BENCHES_SOURCE";
const TARGET: &str = "x86_64-unknown-linux-gnu";

fn main() {
    if let (Ok(asked), Some(source)) = (env::var(ASKED), env::var_os(SOURCE)) {
        return build(asked == "sites", Path::new(&source));
    }
    let scale = Scale::from_args();
    let sizes: &[usize] = if scale == Scale::Full { &[1_000, 2_000, 4_000] } else { &[2] };
    for &functions in sizes {
        let source = root().join(format!("placing_{functions}.cpp"));
        fs::create_dir_all(root()).expect("a folder can be made");
        fs::write(&source, code(functions)).expect("a file can be written");
        let rounds = scale.of(if functions <= 1_000 { 3 } else { 1 });
        let rounds: Vec<_> = (0..rounds).map(|_| [run("hooks", &source), run("sites", &source)]).collect();
        let placed_sites = fs::read_to_string(sites_file(&source)).expect("what the last build has told");
        for (what, unit, of) in [
            ("seconds", "s", (|it: &Cost| it.processor_seconds) as fn(&Cost) -> f64),
            ("peak", "MB", |it| it.peak_mb),
        ] {
            let [plain, placed] =
                [0, 1].map(|at| median(rounds.iter().map(|round| of(&round[at])).collect()));
            let name = format!("placing/{placed_sites}-sites-{what}");
            figure(
                &name,
                format_args!("{placed:.3}"),
                unit,
                placed / plain,
                "the compiler with the same flags",
            );
        }
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("placing")
}

/// Returns the file to which a build writes the number of sites.
fn sites_file(source: &Path) -> PathBuf {
    source.with_extension("sites")
}

fn run(asked: &str, source: &Path) -> Cost {
    let mut this = Command::new(env::current_exe().expect("this program"));
    cost::run(this.env(ASKED, asked).env(SOURCE, source))
}

/// Compiles the source, with hooks or with sites in place of them.
fn build(with_sites: bool, source: &Path) {
    let mut build = probe_build::Build::new();
    build.cpp(true).file(source).target(TARGET).host(TARGET).opt_level(2).debug(false);
    build.out_dir(root().join(if with_sites { "sites" } else { "hooks" })).cargo_metadata(false);
    if with_sites {
        build.sites(Sites::InstrumentFunctions);
    } else {
        build.sites(Sites::None).flag("-finstrument-functions").flag("-fno-optimize-sibling-calls");
    }
    let (_, report) = build.compile_intermediates();
    if with_sites {
        let sites = report.functions().map(|function| match function.outcome() {
            Outcome::Placed { entries, exits, .. } => entries + exits,
            _ => 0,
        });
        fs::write(sites_file(source), sites.sum::<usize>().to_string()).expect("a file can be written");
    }
}

/// Returns C++ with this many functions, each with dozens of inlined calls, and a landing pad.
fn code(functions: usize) -> String {
    let mut text = String::from(
        "struct Guard { unsigned *at; ~Guard() { *at += 1; } };\nextern void other(unsigned);\n",
    );
    for at in 0..16 {
        let odd = 2 * at + 1;
        writeln!(
            text,
            "inline unsigned step{at}(unsigned x) {{ return x * {odd} ^ (x >> {}); }}\n\
             template <int N> inline unsigned twice{at}(unsigned x) {{ return step{at}(x) + step{at}(x + N); }}",
            at % 7 + 1
        )
        .expect("memory");
    }
    for at in 0..functions {
        writeln!(
            text,
            "unsigned function{at}(unsigned x, unsigned *all, unsigned count) {{\n    Guard guard{{all}};"
        )
        .expect("memory");
        text.push_str("    for (unsigned i = 0; i < count; i++) {\n");
        for call in 0..8 {
            let which = (at + call) % 16;
            writeln!(
                text,
                "        if (all[i] & {}) x += twice{which}<{}>(all[i]); else other(x);",
                1 << call,
                at % 3 + 1
            )
            .expect("memory");
        }
        text.push_str("    }\n    return x;\n}\n");
    }
    text
}
