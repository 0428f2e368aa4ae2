//! `crates`: the instructions of third-party crates with a latent probe on each of their functions,
//! or on each block of functions with the block's default exclusions. The baselines are bare NOPs
//! at the same places, and the unchanged crates. callgrind counts, so the result is the same in
//! each run.
//!
//! A driver in `../drivers` does several rounds of work with the crate. The count without work is
//! subtracted. It prints the bytes of text a site, too, copies included.
//!
//! Arguments name the crates to compare: `-- minijinja`. Without any, all are.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use object::{Object, ObjectSection};
use probe_benches::{IS_PATCHED, Scale, callgrind, figure};
use probe_tests::crates::{
    BB8, Copy, Crate, Dependency, Driver, HASHBROWN, ITERTOOLS, MINIJINJA, Places, SMALLVEC,
};

/// A driver, its further dependencies, and the number of rounds. That of [`MINIJINJA`] reads a text
/// besides: its own.
const DRIVERS: [(Crate, &str, u64); 5] = [
    (BB8, "tokio = { version = \"1\", features = [\"rt\", \"time\"] }\n", 2_000),
    (ITERTOOLS, "", 2_000),
    (SMALLVEC, "", 2_000),
    (HASHBROWN, "", 2_000),
    (MINIJINJA, "", 100),
];

/// Bytes of a site's record.
const RECORD: u64 = 16;

const MAIN: &str = "mod driver;\n\nfn main() {\n    let times = std::env::args().nth(1).and_then(|it| it.parse().ok());\n    \
                    println!(\"{}\", driver::work(TEXT, times.expect(\"a number of rounds\")));\n}\n";

fn main() {
    let scale = Scale::from_args();
    if !IS_PATCHED {
        println!("sites are not patched in this build");
        return;
    }
    if !callgrind::is_there() {
        return;
    }
    // The smoke test has one small crate.
    let drivers = if scale == Scale::Full { &DRIVERS[..] } else { &DRIVERS[2..3] };
    let named: Vec<_> = env::args().skip(1).filter(|it| !it.starts_with('-')).collect();
    let is_meant = |it: &Crate| named.is_empty() || named.iter().any(|name| name == it.name);
    for (it, dependencies, rounds) in drivers.iter().filter(|(it, ..)| is_meant(it)) {
        for places in [Places::Blocks, Places::Functions] {
            compare(it, places, dependencies, scale.of(*rounds));
        }
    }
}

fn compare(it: &Crate, places: Places, dependencies: &str, rounds: u64) {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let runtime = here.parent().expect("the workspace").join("probe-runtime");
    let bare = here.join("bare");
    let counts =
        [("plain", None), ("bare", Some(("bare", &bare))), ("probes", Some(("probe-runtime", &runtime)))]
            .map(|(variant, stand_in)| {
                let variant =
                    if stand_in.is_some() { format!("{variant}-{places:?}") } else { variant.to_owned() };
                let folder = root().join(&variant).join(it.name);
                let copy = match stand_in {
                    None => Copy::plain(it, &folder),
                    Some((package, folder_of_it)) => {
                        let dependency = Dependency {
                            kind: "dependencies",
                            name: "probe-runtime",
                            package,
                            folder: folder_of_it,
                        };
                        Copy::patched(it, &folder, places, &[dependency], "")
                    }
                };
                let program = build(it, &variant, &copy, dependencies);
                (count(&program, rounds), program)
            });
    let [(plain, bytes), (bare, _), (probes, bytes_with)] = counts;
    assert_eq!((&plain.1, &plain.1), (&bare.1, &probes.1), "the same results");
    for (name, instructions, baseline, of) in [
        ("plain", plain.0, "itself", plain.0),
        ("bare", bare.0, "plain", plain.0),
        ("probes", probes.0, "bare NOPs", bare.0),
        ("probes-all", probes.0, "plain", plain.0),
    ] {
        let value = format_args!("{instructions:.1}");
        figure(
            &format!("crates/{}-in-{places:?}-{name}", it.name).to_lowercase(),
            value,
            "instructions a round",
            instructions / of,
            baseline,
        );
    }
    let [(before, _), (after, records)] = [bytes, bytes_with].map(|it| text(&it));
    figure(
        &format!("crates/{}-in-{places:?}-text", it.name).to_lowercase(),
        format_args!("{:.1}", (after as f64 - before as f64) / (records / RECORD) as f64),
        "bytes a site",
        after as f64 / before as f64,
        "the driver of the unchanged crate, in all",
    );
}

/// Returns the bytes of a program's text, and those of its sites' records.
fn text(program: &Path) -> (u64, u64) {
    let data = fs::read(program).expect("the program");
    let file = object::File::parse(&*data).expect("a program");
    let size = |name| file.section_by_name(name).map_or(0, |it| it.size());
    (size(".text"), size("probe_sites"))
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("driven")
}

/// Builds the driver with this copy, and returns its program.
fn build(it: &Crate, variant: &str, copy: &Copy, dependencies: &str) -> PathBuf {
    let folder = root().join(variant).join(format!("{}-driver", it.name));
    let driver = Path::new(env!("CARGO_MANIFEST_DIR")).join("drivers").join(format!("{}.rs", it.name));
    let driver = fs::read_to_string(driver).expect("the driver");
    let text = if it.name == MINIJINJA.name { "include_str!(\"driver.rs\"), " } else { "" };
    let main = MAIN.replace("TEXT, ", text);
    let program =
        Driver { of: it, copy, dependencies, sources: &[("main.rs", &main), ("driver.rs", &driver)] };
    program.build(&folder, &root().join("target").join(variant).join(it.name))
}

/// Returns the instructions a round, and the driver's result.
fn count(program: &Path, rounds: u64) -> (f64, String) {
    let (all, digest) = callgrind::instructions(program, &[&rounds.to_string()], &[], None);
    let (none, _) = callgrind::instructions(program, &["0"], &[], None);
    let each = (all - none) as f64 / rounds as f64;
    (each, digest)
}
