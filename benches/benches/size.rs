//! `size`: bytes of a site in a program, by section, and in its file. It compares generated
//! functions with an entry and an exit in a release build with the same functions without probes.
//! Then it measures the runtime's own share of a program.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use object::{Object, ObjectSection, SectionKind};
use probe_benches::{IS_PATCHED, Scale, figure, functions};
use probe_tests::nested::{cargo_into, lend_lock_file};

const FUNCTIONS: usize = 1_000;
const RECORD: u64 = 16;

fn main() {
    if !IS_PATCHED {
        println!("sites are not patched in this build");
        return;
    }
    let functions = if Scale::from_args() == Scale::Full { FUNCTIONS } else { 20 };
    let plain = measure("plain", functions, "");
    let probed = measure("probed", functions, "#[::probe_runtime::probe]");
    let sites = probed["probe_sites"] / RECORD;
    assert!(sites >= 2 * functions as u64, "{sites} sites in {functions} functions");
    println!("{functions} functions, {sites} sites, copies included");
    for (section, bytes) in &probed {
        let before = plain.get(section).copied().unwrap_or(0);
        let each = (*bytes as f64 - before as f64) / sites as f64;
        if each.abs() >= 0.05 {
            let (ratio, baseline) = match before {
                0 => (1.0, "itself: there is none without probes"),
                _ => (*bytes as f64 / before as f64, "the same program without probes, in all"),
            };
            figure(&format!("size/{section}"), format_args!("{each:.1}"), "bytes a site", ratio, baseline);
        }
    }
    runtime();
}

/// Programs that use the runtime in different ways, each with its features and its `main`.
const PROGRAMS: [(&str, &str, &str); 4] = [
    ("sites", "default-features = false", "    work();\n    Ok(())"),
    (
        "count",
        "",
        "    let _hits = probe_runtime::select(\"**::work\")?.attach(probe_runtime::Count::new())?;\n    work();\n    Ok(())",
    ),
    ("environment", "", "    let _probes = probe_runtime::init_from_env()?;\n    work();\n    Ok(())"),
    (
        "runtime",
        "features = [\"latency\", \"call-tree\", \"profiler\", \"metrics\", \"perf\"]",
        "    let _probes = probe_runtime::init_from_env()?;\n    work();\n    Ok(())",
    ),
];

/// Prints the runtime's share in several programs: one with sites only (like a library's), one that
/// counts, and those that read `PROBES`, with the default features and with five more.
fn runtime() {
    let bare = build("bare", "default-features = false", "fn main() {\n    println!();\n}\n");
    for (name, features, body) in PROGRAMS {
        let error = if name == "sites" { "()" } else { "probe_runtime::Error" };
        let main = format!(
            "#[probe_runtime::probe]\n#[inline(never)]\nfn work() {{\n    println!();\n}}\n\n\
             fn main() -> Result<(), {error}> {{\n{body}\n}}\n"
        );
        let with = build(name, features, &main);
        for section in ["all text", "all loaded sections"] {
            let [bare, with] = [&bare, &with].map(|sizes| sizes[section] as f64);
            let kilobytes = (with - bare) / 1e3;
            figure(
                &format!("size/{name}: {section}"),
                format_args!("{kilobytes:.1}"),
                "kB",
                with / bare,
                "a program that prints a line",
            );
        }
    }
}

/// Returns the sizes of a program with this many functions.
fn measure(name: &str, functions: usize, attribute: &str) -> BTreeMap<String, u64> {
    // References to all functions keep the linker from dropping them.
    let mut text = functions::source(functions, attribute);
    text.push_str("type F = fn(&[u64], u64) -> u64;\nstatic ALL: &[F] = &[");
    for at in 0..functions {
        write!(text, "m{}::f{at:05}, ", at / 100).expect("memory");
    }
    text.push_str("];\nfn main() {\n    println!(\"{}\", std::hint::black_box(ALL).iter().map(|it| it(&[1, 2], 5)).sum::<u64>());\n}\n");
    build(name, "default-features = false", &text)
}

/// Builds a program with this dependency on the runtime. Returns the bytes of each loaded section,
/// of all text, of all read-only data, and of the file.
fn build(name: &str, runtime_features: &str, main: &str) -> BTreeMap<String, u64> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("size");
    let folder = root.join(name);
    fs::create_dir_all(folder.join("src")).expect("a folder can be made");
    let runtime = here.parent().expect("the workspace").join("probe-runtime");
    let comma = if runtime_features.is_empty() { "" } else { ", " };
    let manifest = format!(
        "[package]\nname = {name:?}\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n[profile.release]\nstrip = \"none\"\n\n\
         [dependencies]\nprobe-runtime = {{ path = '{}'{comma}{runtime_features} }}\n",
        runtime.display()
    );
    fs::write(folder.join("Cargo.toml"), manifest).expect("a file can be written");
    fs::write(folder.join("src/main.rs"), main).expect("a file can be written");
    lend_lock_file(&folder);
    let target = root.join("target");
    let mut cargo = cargo_into(&folder, "build", &target);
    let output = cargo.args(["--release", "--offline"]).output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let data = fs::read(target.join("release").join(name)).expect("the program");
    let file = object::File::parse(&*data).expect("a program");
    let mut sizes = BTreeMap::new();
    let mut add = |name: &str, bytes| *sizes.entry(name.to_owned()).or_insert(0) += bytes;
    add("file", data.len() as u64);
    for section in file.sections().filter(|it| it.address() != 0) {
        let (name, size) = (section.name().expect("a name"), section.size());
        add(name, size);
        add("all loaded sections", size);
        match section.kind() {
            SectionKind::Text => add("all text", size),
            SectionKind::ReadOnlyData => add("all read-only data", size),
            _ => {}
        }
    }
    sizes
}
