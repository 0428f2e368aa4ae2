//! Two incompatible versions of the runtime in one program. Their sites leave the same data in the
//! file: one registry sees them all, and each probe belongs to the runtime that attaches first.
//!
//! The other version is this one under another number: a copy that the test makes.

#![cfg(not(any(probe_portable, probe_off)))]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use probe_tests::fixture::transcript::Sites::{AtLeast, Exactly};
use probe_tests::fixture::transcript::{Expected, Transcript, check, function};
use probe_tests::fixture::{Configuration, Linker};
use probe_tests::whole;

/// Incompatible with every version until then.
const OTHER_VERSION: &str = "999.0.0";

/// Copies files that differ, so that nothing is built anew without need, and removes those that an
/// earlier run has copied and that have moved since.
fn copy(from: &Path, to: &Path, edit: &dyn Fn(String) -> String) {
    if from.is_dir() {
        fs::create_dir_all(to).expect("a directory");
        for entry in fs::read_dir(to).expect("a directory") {
            let entry = entry.expect("an entry");
            if !from.join(entry.file_name()).exists() {
                let is_folder = entry.file_type().expect("its type").is_dir();
                let remove = if is_folder { fs::remove_dir_all } else { fs::remove_file };
                remove(entry.path()).expect("it can be removed");
            }
        }
        for entry in fs::read_dir(from).expect("a directory") {
            let name = entry.expect("an entry").file_name();
            copy(&from.join(&name), &to.join(&name), edit);
        }
    } else {
        let bytes = fs::read(from).expect("a file");
        // Pictures are no text.
        let bytes = match String::from_utf8(bytes) {
            Ok(text) => edit(text).into_bytes(),
            Err(picture) => picture.into_bytes(),
        };
        if fs::read(to).ok().as_ref() != Some(&bytes) {
            fs::write(to, bytes).expect("it can be written");
        }
    }
}

/// The workspace's manifest, for the runtime and its own crates alone, under another version.
fn other_manifest(manifest: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let manifest = manifest.replace(&format!("\"={version}\""), &format!("\"={OTHER_VERSION}\""));
    let mut manifest: toml::Table = manifest.parse().expect("the workspace's manifest");
    let workspace = manifest["workspace"].as_table_mut().expect("a workspace");
    workspace["package"]["version"] = OTHER_VERSION.into();
    workspace["members"] = vec![
        "probe-target", "probe-core", "probe-lang", "probe-report", "probe-expand", "probe-macros",
        "probe-patch", "probe-hooks", "probe-runtime",
    ]
    .into();
    workspace.remove("default-members");
    manifest.to_string()
}

/// A file of a package, with its workspace said in its manifest: cargo would take one further up,
/// if it knows that already.
fn member(text: String) -> String {
    match text.strip_prefix("[package]\n") {
        Some(rest) => format!("[package]\nworkspace = \"..\"\n{rest}"),
        None => text,
    }
}

/// `tests/versions`, with the other version of the runtime beside it.
fn workspace() -> &'static Path {
    static WORKSPACE: OnceLock<PathBuf> = OnceLock::new();
    WORKSPACE.get_or_init(|| {
        let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
        let root = tests.parent().expect("the outer workspace");
        let to = Path::new(env!("CARGO_TARGET_TMPDIR")).join("versions");
        let here = root.join("probe-runtime").display().to_string();
        for member in ["Cargo.toml", "app", "old", "new"] {
            let from = tests.join("versions").join(member);
            fs::create_dir_all(&to).expect("a directory");
            copy(&from, &to.join(member), &|text| text.replace("../../../probe-runtime", &here));
        }
        let runtime = to.join("runtime");
        for part in [
            "probe-runtime", "probe-core", "probe-lang", "probe-report", "probe-target", "probe-patch",
            "probe-expand", "probe-macros",
        ] {
            copy(&root.join(part), &runtime.join(part), &member);
        }
        copy(&root.join("Cargo.toml"), &runtime.join("Cargo.toml"), &|text| other_manifest(&text));
        to
    })
}

fn configuration(name: &'static str) -> Configuration {
    Configuration::new(env!("CARGO_TARGET_TMPDIR"), workspace(), name)
}

/// Returns the expected hits of the program's `work`.
fn expected() -> Vec<Expected> {
    let mut expected = function("app::work", Exactly(1), 1).to_vec();
    expected.extend(function("old::double", Exactly(1), 2));
    expected.extend(function("old::keep", Exactly(1), 1));
    expected.extend(function("new::triple", Exactly(1), 3));
    expected.extend(function("new::keep", Exactly(2), 2));
    expected.push(("old::doubling", "point", AtLeast(1), 2));
    expected.push(("new::tripling", "point", AtLeast(1), 3));
    expected
}

fn check_one_runtime(configuration: &Configuration) {
    let mut versions = configuration.dependencies("app");
    versions.retain(|package| package.starts_with("probe-runtime "));
    versions.sort();
    versions.dedup();
    let both = [env!("CARGO_PKG_VERSION"), OTHER_VERSION].map(|version| format!("probe-runtime v{version}"));
    assert_eq!(versions, both);

    let built = configuration.build("app");
    let transcript = Transcript::parse(&built.run("app", &[]));
    check(&transcript, &expected(), built.description());
    transcript.must_match_files(&built, &["app"]);
    let sites = transcript.total();
    let hits: u64 = expected().iter().map(|(.., hits)| hits).sum();
    let rest =
        [format!("patched {sites}"), format!("restored {sites}"), format!("at exit {hits}"), "ok".to_owned()];
    assert_eq!(transcript.rest, rest, "{}", built.description());
}

/// A slice has release builds only: each profile compiles both runtimes.
#[test]
fn one_registry_sees_both_in_a_debug_build() {
    if whole::has("one_registry_sees_both_in_a_debug_build") {
        check_one_runtime(&configuration("debug"));
    }
}

#[test]
fn one_registry_sees_both_in_a_release_build() {
    check_one_runtime(&configuration("release").release_on_plain_runtime());
}

/// All crates as one: their assembly is one file's, with one macro for sites.
#[test]
fn one_registry_sees_both_with_fat_lto() {
    if whole::has("one_registry_sees_both_with_fat_lto") {
        check_one_runtime(&configuration("fat_lto").release_on_plain_runtime().setting("LTO", "fat"));
    }
}

#[test]
fn one_registry_sees_both_under_gnu_ld() {
    if whole::has("one_registry_sees_both_under_gnu_ld") {
        check_one_runtime(&configuration("gnu").release_on_plain_runtime().linker(Linker::Gnu));
    }
}

/// A flag and a branch: one site for each definition.
#[test]
fn one_registry_sees_both_where_nothing_is_patched() {
    if !whole::has("one_registry_sees_both_where_nothing_is_patched") {
        return;
    }
    let configuration = configuration("portable").release_on_plain_runtime();
    let built = configuration.flags(&["--cfg=probe_portable"]).build("app");
    let transcript = Transcript::parse(&built.run("app", &[]));
    let expected: Vec<Expected> =
        expected().into_iter().map(|(path, kind, _, hits)| (path, kind, Exactly(1), hits)).collect();
    check(&transcript, &expected, built.description());
    assert_eq!(transcript.rest.last().map(String::as_str), Some("ok"), "{}", built.description());
}

/// Both have a registry, and both see all probes. The first to attach owns a probe.
#[test]
fn two_runtimes_share_the_probes() {
    let configuration = configuration("two_runtimes").release_on_plain_runtime().features(&["two-runtimes"]);
    let built = configuration.build("app");
    let output = built.run("app", &[]);
    // Entry and exit: `double` twice, `triple` three times; `old::keep` once, `new::keep` twice;
    // and one entry of `work`.
    let (ours, theirs) = (2 * (2 + 3), 2 * (1 + 2) + 1);
    let said = format!(
        "ours {ours} of 4\ntheirs {theirs} of 7\nrefused 4\nrestored 4 7\nat exit {ours} {theirs}\nok\n"
    );
    assert_eq!(output, said, "{}", built.description());
}
