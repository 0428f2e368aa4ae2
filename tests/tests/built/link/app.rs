//! Programs that are one executable.

use std::collections::BTreeMap;

use object::{Object, ObjectSection};
use probe_tests::fixture::site_table::{RECORDS, SiteTable};
use probe_tests::fixture::{Built, Configuration, Linker};

use crate::link::configuration;
use probe_tests::fixture::transcript::Sites::{AtLeast, Exactly};
use probe_tests::fixture::transcript::{Expected, Transcript, check, function};
use probe_tests::whole;

/// What `link/app` holds and does.
fn expected() -> Vec<Expected> {
    let mut expected = Vec::new();
    for probe in [
        function("app::plain", Exactly(1), 5),
        function("app::generic", Exactly(3), 4),
        function("app::inlined", Exactly(4), 4),
        function("app::early", Exactly(1), 4),
        function("app::may_panic", Exactly(1), 2),
        function("app::renamed", Exactly(1), 1000),
        function("app::never_called", Exactly(0), 0),
        function("shapes::area", Exactly(1), 1),
        function("shapes::scaled", AtLeast(2), 2),
        function("shapes::inner::doubled", AtLeast(1), 1),
        function("shapes::never_called", Exactly(0), 0),
    ] {
        expected.extend(probe);
    }
    expected.extend([
        ("app::inside", "point", Exactly(4), 4),
        ("app::round", "point", AtLeast(1), 10),
        ("shapes::factor", "point", AtLeast(2), 2),
    ]);
    expected
}

/// A panic that aborts is not tried.
fn expected_without_unwinding() -> Vec<Expected> {
    let mut expected = expected();
    for (_, _, _, hits) in expected.iter_mut().filter(|(path, ..)| *path == "app::may_panic") {
        *hits = 1;
    }
    expected
}

/// GNU ld takes the references to a table's start and stop for uses of all of it, and so keeps each
/// function that a record names, called or not. `-z start-stop-gc` tells it otherwise.
fn expected_with_uncalled_kept() -> Vec<Expected> {
    let mut expected = expected();
    for (_, _, sites, _) in expected.iter_mut().filter(|(path, ..)| *path == "shapes::never_called") {
        *sites = Exactly(1);
    }
    expected
}

/// Builds and runs `link/app`, and checks all of it.
fn check_app(configuration: &Configuration, linker: Linker, expected: &[Expected]) -> Built {
    let built = configuration.clone().linker(linker).build("app");
    must_be_linked_by(&built, "app", linker);
    let transcript = Transcript::parse(&built.run("app", &[]));
    check(&transcript, expected, built.description());
    transcript.must_match_files(&built, &["app"]);
    must_have_switched_all(&transcript, built.description());
    if !configuration.is_release() {
        // An unoptimised program copies nothing.
        for ((path, kind), sites) in &transcript.sites {
            if matches!(path.as_str(), "app::plain" | "app::renamed" | "app::round" | "shapes::area") {
                assert_eq!(*sites, 1, "{path} {kind}, {}", built.description());
            }
        }
    }
    built
}

/// The rest of `transcript::run`'s output.
pub fn must_have_switched_all(transcript: &Transcript, description: &str) {
    let sites = transcript.total();
    let rest = [format!("patched {sites}"), format!("restored {sites}"), "ok".to_owned()];
    assert_eq!(transcript.rest, rest, "{description}");
}

/// lld leaves its name in the comment section.
pub fn must_be_linked_by(built: &Built, file: &str, linker: Linker) {
    let bytes = built.bytes(file);
    let table = SiteTable::parse(&bytes);
    let comment = table.section(".comment").map(String::from_utf8_lossy).unwrap_or_default();
    let is_lld = comment.contains("LLD");
    assert_eq!(
        is_lld,
        linker == Linker::Lld,
        "{file} was linked by another linker: {comment:?}, {}",
        built.description()
    );
}

#[test]
fn lld_debug() {
    check_app(&configuration("lld_debug"), Linker::Lld, &expected());
}

#[test]
fn lld_release() {
    check_app(&configuration("lld_release").release_on_plain_runtime(), Linker::Lld, &expected());
}

#[test]
fn lld_fat_lto() {
    if whole::has("lld_fat_lto") {
        check_app(&configuration("lld_fat_lto").release().setting("LTO", "fat"), Linker::Lld, &expected());
    }
}

#[test]
fn lld_thin_lto() {
    if whole::has("lld_thin_lto") {
        check_app(&configuration("lld_thin_lto").release().setting("LTO", "thin"), Linker::Lld, &expected());
    }
}

/// A slice has this many units of the program alone, in `lld_stripped`.
#[test]
fn lld_codegen_units_256() {
    if whole::has("lld_codegen_units_256") {
        let configuration = configuration("lld_codegen_units_256").release().setting("CODEGEN_UNITS", "256");
        check_app(&configuration, Linker::Lld, &expected());
    }
}

#[test]
fn lld_panic_abort() {
    if whole::has("lld_panic_abort") {
        check_aborting(&configuration("lld_panic_abort").release().setting("PANIC", "abort"));
    }
}

#[test]
fn lld_crt_static() {
    if whole::has("lld_crt_static") {
        let configuration = configuration("lld_crt_static").release().flags(&[STATIC]);
        check_app(&configuration, Linker::Lld, &expected());
    }
}

const STATIC: &str = "-Ctarget-feature=+crt-static";

/// Without unwinding there is one way out.
fn check_aborting(configuration: &Configuration) {
    let built = check_app(configuration, Linker::Lld, &expected_without_unwinding());
    let transcript = Transcript::parse(&built.run("app", &[]));
    assert_eq!(transcript.sites[&("app::may_panic".to_owned(), "exit".to_owned())], 1);
}

#[test]
fn lld_stripped() {
    let flags: &[&str] = if whole::is_asked_for() {
        &["-Cstrip=symbols"]
    } else {
        &["-Cstrip=symbols", "-Ccodegen-units=256"]
    };
    let configuration = configuration("lld_stripped").release_on_plain_runtime().flags_of_program(flags);
    let built = check_app(&configuration, Linker::Lld, &expected());
    let bytes = built.bytes("app");
    assert_eq!(SiteTable::parse(&bytes).file().symbols().count(), 0, "symbols in {}", built.description());
}

#[test]
fn gnu_debug() {
    check_app(&configuration("gnu_debug"), Linker::Gnu, &expected_with_uncalled_kept());
}

#[test]
fn gnu_release() {
    check_app(
        &configuration("gnu_release").release_on_plain_runtime(),
        Linker::Gnu,
        &expected_with_uncalled_kept(),
    );
}

/// A slice has link-time optimisation, and a static program, with lld.
#[test]
fn gnu_fat_lto() {
    if whole::has("gnu_fat_lto") {
        let configuration = configuration("gnu_fat_lto").release().setting("LTO", "fat");
        check_app(&configuration, Linker::Gnu, &expected());
    }
}

#[test]
fn gnu_start_stop_gc() {
    let flags = ["-Clink-arg=-Wl,-z,start-stop-gc"];
    check_app(
        &configuration("gnu_start_stop_gc").release_on_plain_runtime().flags_of_program(&flags),
        Linker::Gnu,
        &expected(),
    );
}

#[test]
fn gnu_crt_static() {
    if whole::has("gnu_crt_static") {
        let configuration = configuration("gnu_crt_static").release().flags(&[STATIC]);
        check_app(&configuration, Linker::Gnu, &expected_with_uncalled_kept());
    }
}

/// No site, no note, no definition: the program is as if it had never had probes. A slice has this
/// flag in `shipped`, with a program whose runtime is small.
#[test]
fn probe_off() {
    if !whole::has("probe_off") {
        return;
    }
    let built =
        configuration("probe_off").release_on_plain_runtime().flags(&["--cfg=probe_off"]).build("app");
    assert_eq!(built.run("app", &[]), "none\nok\n", "{}", built.description());
    must_hold_nothing(&built, "app");
    for text in ["app::plain", "shapes::area", "LatentProbe"] {
        let bytes = built.bytes("app");
        let found = bytes.windows(text.len()).position(|bytes| bytes == text.as_bytes());
        assert_eq!(found, None, "{text:?} is left, {}", built.description());
    }
}

/// A flag and a branch: the same probes, one site each, the same hits.
#[test]
fn probe_portable() {
    if !whole::has("probe_portable") {
        return;
    }
    let built = configuration("probe_portable")
        .release_on_plain_runtime()
        .flags(&["--cfg=probe_portable"])
        .build("app");
    let transcript = Transcript::parse(&built.run("app", &[]));
    let expected: Vec<Expected> =
        expected().into_iter().map(|(path, kind, _, hits)| (path, kind, Exactly(1), hits)).collect();
    check(&transcript, &expected, built.description());
    assert_eq!(transcript.rest.last().map(String::as_str), Some("ok"));
    let bytes = built.bytes("app");
    let table = SiteTable::parse(&bytes);
    assert_eq!((table.nops(), table.section(RECORDS)), (0, None), "{}", built.description());
}

/// Also with GNU ld, which keeps the sections that `__start_…` names.
#[test]
fn without_any_probe() {
    for linker in [Linker::Lld, Linker::Gnu] {
        let name = if linker == Linker::Lld { "lld_without_any_probe" } else { "gnu_without_any_probe" };
        let built = configuration(name).release_on_plain_runtime().linker(linker).build("empty");
        assert_eq!(built.run("empty", &[]), "none\nok\n", "{}", built.description());
        must_hold_nothing(&built, "empty");
    }
}

/// The dependency is called `lp`, and the crate's edition is 2021.
#[test]
fn renamed_dependency() {
    let built = configuration("renamed_dependency").build("renamed");
    let transcript = Transcript::parse(&built.run("renamed", &[]));
    let expected = [
        ("renamed::attribute", "entry", Exactly(1), 1),
        ("renamed::attribute", "exit", Exactly(1), 1),
        ("renamed::inside", "point", Exactly(1), 1),
        ("renamed::outside", "point", Exactly(1), 2),
    ];
    let futures = ["renamed::find", "renamed::lock", "renamed::read"].into_iter().flat_map(|path| {
        [("entry", 1), ("exit", 1), ("drop", 0), ("suspend", 0), ("resume", 0)]
            .map(|(kind, hits)| (path, kind, AtLeast(0), hits))
    });
    let expected: Vec<_> = expected.into_iter().chain(futures).collect();
    check(&transcript, &expected, built.description());
    transcript.must_match_files(&built, &["renamed"]);
    must_have_switched_all(&transcript, built.description());
}

fn must_hold_nothing(built: &Built, file: &str) {
    let bytes = built.bytes(file);
    let table = SiteTable::parse(&bytes);
    let sections: BTreeMap<&str, u64> = (table.file().sections())
        .filter_map(|section| Some((section.name().ok()?, section.size())))
        .filter(|(name, size)| *size != 0 && (name.contains("probe") || name.starts_with("linkme_PROBE")))
        .collect();
    assert_eq!(sections, BTreeMap::new(), "sections left in {file}, {}", built.description());
    assert_eq!(table.nops(), 0, "{}", built.description());
}
