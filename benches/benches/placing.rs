//! `placing`: time and memory that `probe_build` takes for C++ with `Sites::InstrumentFunctions`,
//! and for C with `Sites::EntryReturn`, beside the compiler alone with the same flags. Three sizes
//! show the growth; the largest C has a million lines of assembly.
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

/// Says which [`Way`] the process builds, by its number.
const ASKED: &str = "PROBE_BENCHES_PLACING";
const SOURCE: &str = "PROBE_BENCHES_SOURCE";
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// How a source is built.
struct Way {
    name: &'static str,
    extension: &'static str,
    sites: Sites,
    /// Flags of the compiler, with sites or without.
    flags: &'static [&'static str],
    code: fn(usize) -> String,
    /// Numbers of functions.
    sizes: [usize; 3],
}

const WAYS: [Way; 2] = [
    Way {
        name: "hooks",
        extension: "cpp",
        sites: Sites::InstrumentFunctions,
        flags: &["-finstrument-functions", "-fno-optimize-sibling-calls"],
        code: inlined_calls,
        sizes: [1_000, 2_000, 4_000],
    },
    Way {
        name: "returns",
        extension: "c",
        sites: Sites::EntryReturn,
        flags: &[],
        code: small_functions,
        sizes: [3_750, 7_500, 15_000],
    },
];

fn main() {
    if let (Ok(asked), Some(source)) = (env::var(ASKED), env::var_os(SOURCE)) {
        let (way, with_sites) = asked.split_once(' ').expect("a way, and whether with sites");
        return build(
            &WAYS[way.parse::<usize>().expect("a number")],
            with_sites == "sites",
            Path::new(&source),
        );
    }
    let scale = Scale::from_args();
    for (number, way) in WAYS.iter().enumerate() {
        let sizes: &[usize] = if scale == Scale::Full { &way.sizes } else { &[2] };
        for &functions in sizes {
            let source = root().join(format!("placing_{functions}.{}", way.extension));
            fs::create_dir_all(root()).expect("a folder can be made");
            fs::write(&source, (way.code)(functions)).expect("a file can be written");
            let rounds = scale.of(if functions == way.sizes[0] { 3 } else { 1 });
            let run = |sites| run(&format!("{number} {sites}"), &source);
            let rounds: Vec<_> = (0..rounds).map(|_| [run("plain"), run("sites")]).collect();
            let placed_sites = fs::read_to_string(sites_file(&source)).expect("what the last build has told");
            for (what, unit, of) in [
                ("seconds", "s", (|it: &Cost| it.processor_seconds) as fn(&Cost) -> f64),
                ("peak", "MB", |it| it.peak_mb),
            ] {
                let [plain, placed] =
                    [0, 1].map(|at| median(rounds.iter().map(|round| of(&round[at])).collect()));
                let name = format!("placing/{}-{placed_sites}-sites-{what}", way.name);
                let value = format_args!("{placed:.3}");
                figure(&name, value, unit, placed / plain, "the compiler with the same flags");
            }
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

/// Compiles the source, with sites or as the compiler does.
fn build(way: &Way, with_sites: bool, source: &Path) {
    let mut build = probe_build::Build::new();
    build.cpp(way.extension == "cpp").file(source).target(TARGET).host(TARGET).opt_level(2).debug(false);
    build.out_dir(root().join(if with_sites { "sites" } else { "plain" })).cargo_metadata(false);
    if with_sites {
        build.sites(way.sites);
    } else {
        build.sites(Sites::None);
        build.flags(way.flags);
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

/// Returns C with this many functions, of some seventy lines of assembly each.
fn small_functions(functions: usize) -> String {
    let mut text = String::from("int other(int, const char *);\n");
    for at in 0..functions {
        writeln!(
            text,
            "int f{at}(int x, const int *a) {{\n  int s = 0;\n  for (int k = 0; k < x; k++)\n    \
             if (a[k] > k) s += a[k] * {};\n    else s ^= k;\n  return other(s, \"t{at}\") + 1;\n}}",
            at + 3
        )
        .expect("memory");
    }
    text
}

/// Returns C++ with this many functions, each with dozens of inlined calls, and a landing pad.
fn inlined_calls(functions: usize) -> String {
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
