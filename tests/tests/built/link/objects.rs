//! Programs of several objects: a plugin that comes and goes, and Rust shared libraries.

use probe_tests::fixture::Linker;

use crate::link::app::{must_be_linked_by, must_have_switched_all};
use crate::link::configuration;
use probe_tests::fixture::transcript::Sites::{AtLeast, Exactly};
use probe_tests::fixture::transcript::{Expected, Transcript, check, function};
use probe_tests::whole;

/// The host's own probe, hit `hits` times.
fn host(hits: u64) -> Vec<Expected> {
    function("host::own", Exactly(1), hits).to_vec()
}

/// The plugin's probes after `plugin_sum(rounds)`.
fn plugin(rounds: u64) -> Vec<Expected> {
    let mut expected = function("plugin::each", Exactly(1), rounds).to_vec();
    expected.extend(function("plugin::plugin_sum", Exactly(1), 1));
    expected.push(("plugin::value", "point", Exactly(1), rounds));
    expected
}

/// The plugin is listed, hit and forgotten, also with somebody attached.
fn check_plugin(name: &'static str, linker: Linker) {
    let configuration = configuration(name).with_shared_libraries().release_on_plain_runtime().linker(linker);
    configuration.build("plugin");
    let built = configuration.build("host");
    for file in ["host", "libplugin.so"] {
        must_be_linked_by(&built, file, linker);
    }
    let output = built.run("host", &[&built.path("libplugin.so")]);
    let stages = Transcript::stages(&output);
    let names: Vec<&str> = stages.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["before", "opened", "closed", "reopened", "closed-attached", "detached"]);
    let [before, opened, closed, reopened, closed_attached, detached] =
        <[_; 6]>::try_from(stages.into_iter().map(|(_, stage)| stage).collect::<Vec<_>>()).expect("six");

    let everything = [host(1), plugin(10)].concat();
    check(&opened, &everything, built.description());
    opened.must_match_files(&built, &["host", "libplugin.so"]);
    assert_eq!(reopened.sites, opened.sites, "{}", built.description());
    let hits: Vec<_> =
        plugin(3).iter().map(|(path, kind, _, hits)| (((*path).into(), (*kind).into()), *hits)).collect();
    assert_eq!(reopened.hits, hits.into_iter().collect(), "{}", built.description());

    before.must_match_files(&built, &["host"]);
    for without in [&closed, &closed_attached, &detached] {
        assert_eq!(without.sites, before.sites, "{}", built.description());
        assert!(without.hits.is_empty());
    }
    assert_eq!(detached.rest, ["ok"], "{}", built.description());
}

/// A function with `ret`: its exit has a site on the way out by a panic, too, where the compiler
/// sees one.
fn recorded(path: &'static str, instances: usize, hits: u64) -> [Expected; 2] {
    [(path, "entry", Exactly(instances), hits), (path, "exit", AtLeast(instances), hits)]
}

/// What `link/downstream` and its two libraries hold and do.
fn downstream() -> Vec<Expected> {
    // Compiled for u8 in alpha, for u16 in beta, for u32 and u64 in the program.
    let mut expected = function("alpha::generic", Exactly(4), 7).to_vec();
    expected.push(("alpha::inside", "point", Exactly(4), 7));
    expected.extend(function("alpha::plain", Exactly(1), 3));
    expected.extend(function("alpha::inlined", AtLeast(3), 4));
    expected.extend(recorded("alpha::recorded", 1, 2));
    expected.extend(recorded("alpha::recorded_generic", 3, 3));
    expected.extend(recorded("beta::recorded", 1, 1));
    expected.extend(function("beta::twice", Exactly(2), 2));
    expected.extend(function("beta::work", Exactly(1), 1));
    expected.extend(function("downstream::own", Exactly(1), 1));
    expected
}

/// Generic and inline functions of a shared library are sites of the objects that compile them.
fn check_dylibs(name: &'static str, linker: Linker, is_release: bool) {
    let mut configuration =
        configuration(name).with_shared_libraries().linker(linker).flags(&["-Cprefer-dynamic"]);
    if is_release {
        configuration = configuration.release_on_plain_runtime();
    }
    let built = configuration.build("downstream");
    let files = ["downstream", "libalpha.so", "libbeta.so"];
    for file in files {
        must_be_linked_by(&built, file, linker);
    }
    let transcript = Transcript::parse(&built.run("downstream", &[]));
    check(&transcript, &downstream(), built.description());
    must_have_switched_all(&transcript, built.description());
    transcript.must_match_files(&built, &files);
}

#[test]
fn lld_plugin() {
    check_plugin("lld_plugin", Linker::Lld);
}

#[test]
fn gnu_plugin() {
    if whole::has("gnu_plugin") {
        check_plugin("gnu_plugin", Linker::Gnu);
    }
}

#[test]
fn lld_dylibs_debug() {
    if whole::has("lld_dylibs_debug") {
        check_dylibs("lld_dylibs_debug", Linker::Lld, false);
    }
}

#[test]
fn lld_dylibs_release() {
    if whole::has("lld_dylibs_release") {
        check_dylibs("lld_dylibs_release", Linker::Lld, true);
    }
}

#[test]
fn gnu_dylibs_release() {
    if whole::has("gnu_dylibs_release") {
        check_dylibs("gnu_dylibs_release", Linker::Gnu, true);
    }
}
