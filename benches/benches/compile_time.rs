//! `compile_time`: time and memory that rustc takes for code with a probe in each function, beside
//! the same code without probes.
//!
//! It compiles third-party crates by cargo, with only the crate itself out of date. Each has a
//! probe on every function, or on every block of functions with the block's default exclusions.
//! Then it compiles generated libraries of 100, 1,000 and 10,000 functions with one rustc each.
//! `probe-runtime` and `probe-macros` are built before, because a project builds them once.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use probe_benches::cost::{self, Cost};
use probe_benches::{Scale, figure, functions, median};
use probe_tests::crates::{CRATES, Copy, Crate, Dependency, Places};
use probe_tests::nested::{cargo_into, lend_lock_file};

const ATTRIBUTE: &str = "#[::probe_runtime::probe]";

/// The arguments of rustc that cargo uses by default.
const MODES: [(&str, &[&str]); 3] = [
    ("check", &["--emit=metadata"]),
    ("debug", &["--emit=link,metadata", "-Cdebuginfo=2"]),
    ("release", &["--emit=link,metadata", "-Copt-level=3"]),
];

fn main() {
    let scale = Scale::from_args();
    let crates = if scale == Scale::Full { &CRATES[..] } else { &CRATES[2..3] };
    for places in [Places::Blocks, Places::Functions] {
        crates.iter().for_each(|it| real(it, places, scale.of(5)));
    }
    let runtime = runtime();
    let sizes: &[(usize, u64)] =
        if scale == Scale::Full { &[(100, 5), (1_000, 3), (10_000, 1)] } else { &[(10, 1)] };
    for &(functions, rounds) in sizes {
        for (mode, flags) in MODES {
            // A larger release build takes minutes, and gives no further information.
            if functions <= 100 || mode != "release" {
                generated(&runtime, functions, rounds, mode, flags);
            }
        }
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("compile_time")
}

/// Returns the folder of `probe-runtime`.
fn runtime_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").join("probe-runtime")
}

/// Builds `probe-runtime` with the features for libraries. Returns its file, which has all
/// dependencies beside it.
fn runtime() -> PathBuf {
    let folder = root().join("runtime");
    fs::create_dir_all(folder.join("src")).expect("a folder can be made");
    fs::write(folder.join("src/lib.rs"), "").expect("a file can be written");
    let manifest = format!(
        "[package]\nname = \"user\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n[dependencies]\n\
         probe-runtime = {{ path = '{}', default-features = false }}\n",
        runtime_folder().display()
    );
    fs::write(folder.join("Cargo.toml"), manifest).expect("a file can be written");
    lend_lock_file(&folder);
    let target = root().join("target/runtime");
    let status = cargo_into(&folder, "build", &target).arg("-q").status().expect("cargo runs");
    assert!(status.success(), "probe-runtime does not build");
    let libraries = fs::read_dir(target.join("debug/deps"))
        .expect("what was built")
        .map(|it| it.expect("an entry").path());
    let is_runtime = |path: &PathBuf| {
        let name = path.file_name().expect("a file").to_string_lossy();
        name.starts_with("libprobe_runtime-") && name.ends_with(".rlib")
    };
    // A changed source has a new hash in its name.
    let newest =
        libraries.filter(is_runtime).max_by_key(|it| it.metadata().and_then(|it| it.modified()).ok());
    newest.expect("the library")
}

fn generated(runtime: &Path, functions: usize, rounds: u64, mode: &str, flags: &[&str]) {
    let [plain, probed] = [("plain", ""), ("probed", ATTRIBUTE)].map(|(name, attribute)| {
        let file = root().join(format!("{name}_{functions}.rs"));
        fs::write(&file, functions::source(functions, attribute)).expect("a file can be written");
        file
    });
    let compile = |file: &Path| {
        let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
        rustc
            .args(["--edition=2024", "--crate-type=lib"])
            .args(flags)
            .arg("--out-dir")
            .arg(root().join("out"));
        rustc.arg("--extern").arg(format!("probe_runtime={}", runtime.display()));
        rustc
            .arg("-L")
            .arg(format!("dependency={}", runtime.parent().expect("a folder").display()))
            .arg(file);
        cost::run(&mut rustc)
    };
    let name = format!("{functions}-{mode}");
    compare(&name, rounds, || compile(&plain), || compile(&probed));
}

fn real(it: &Crate, places: Places, rounds: u64) {
    let runtime = runtime_folder();
    let dependency = Dependency {
        kind: "dependencies",
        name: "probe-runtime",
        package: "probe-runtime",
        folder: &runtime,
    };
    let plain = Copy::plain(it, &root().join("plain").join(it.name));
    let name = format!("{}-in-{places:?}", it.name).to_lowercase();
    let probed = Copy::patched(it, &root().join("probed").join(&name), places, &[dependency], "");
    println!("{}: {}", it.name, probed.tally);
    for (mode, arguments) in
        [("check", &["check"][..]), ("debug", &["build"]), ("release", &["build", "--release"])]
    {
        let build = |copy: &Copy, network: &[&str]| {
            let source = copy.folder.join("src/lib.rs");
            let text = fs::read(&source).expect("its source");
            // Writing the file makes the crate out of date.
            fs::write(&source, text).expect("a file can be written");
            let target = root().join("target").join(it.name);
            let mut cargo = cargo_into(&copy.folder, arguments[0], &target);
            cost::run(cargo.args(&arguments[1..]).args(["-q", "--lib"]).args(network).stderr(Stdio::null()))
        };
        // The first build includes the dependencies, and downloads those that are missing.
        let _ = (build(&plain, &[]), build(&probed, &[]));
        let offline = |copy: &Copy| build(copy, &["--offline"]);
        compare(&format!("{name}-{mode}"), rounds, || offline(&plain), || offline(&probed));
    }
}

/// Prints the medians of several rounds.
fn compare(name: &str, rounds: u64, plain: impl Fn() -> Cost, probed: impl Fn() -> Cost) {
    let rounds: Vec<_> = (0..rounds).map(|_| [plain(), probed()]).collect();
    let of = |which: usize, what: fn(&Cost) -> f64| {
        median(rounds.iter().map(|round| what(&round[which])).collect())
    };
    for (what, unit, of_it) in [
        ("seconds", "s", (|it: &Cost| it.seconds) as fn(&Cost) -> f64),
        ("processor-seconds", "s", |it| it.processor_seconds),
        ("peak", "MB", |it| it.peak_mb),
    ] {
        let (plain, probed) = (of(0, of_it), of(1, of_it));
        let value = format_args!("{probed:.3}");
        figure(
            &format!("compile_time/{name}-{what}"),
            value,
            unit,
            probed / plain,
            "the same source without probes",
        );
    }
}
