//! A library's probes inside a plugin, which has linked the library: they come and go with it.

use std::collections::BTreeMap;
use std::path::Path;

use probe_tests::fixture::Linker;
use probe_tests::fixture::transcript::{Name, Transcript};
use probe_tests::whole;

fn name(path: &str, kind: &str) -> Name {
    (path.to_owned(), kind.to_owned())
}

/// Returns the host's hits after this many calls of the plugin and of `serve`, which do the same.
fn expected(calls: u64) -> BTreeMap<Name, u64> {
    let probes = [("leaf::sum", "entry", 2), ("leaf::sum", "exit", 2)];
    let probes =
        probes.into_iter().chain([("middle::total", "entry", 1), ("middle::Reader::next", "entry", 3)]);
    probes.map(|(path, kind, hits)| (name(path, kind), hits * calls)).collect()
}

/// The program has `leaf` and `middle`, too: one probe has the sites of both objects.
fn check_plugin(configuration: &'static str, linker: Linker) {
    let configuration = crate::shipped::configuration(configuration)
        .with_shared_libraries()
        .release_on_plain_runtime()
        .linker(linker);
    configuration.build("plugin");
    let built = configuration.build("app");
    let output = built.run("app", &[Path::new("host"), &built.path("libshipped_plugin.so")]);
    let stages = Transcript::stages(&output);
    let names: Vec<&str> = stages.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["before", "first", "closed", "second", "closed, attached", "closed"]);
    let [before, first, closed, second, attached, end] =
        <[_; 6]>::try_from(stages.into_iter().map(|(_, stage)| stage).collect::<Vec<_>>()).expect("six");

    before.must_match_files(&built, &["app"]);
    first.must_match_files(&built, &["app", "libshipped_plugin.so"]);
    for (path, here, with) in
        [("leaf::sum", 1, 2), ("middle::total", 1, 2), ("middle::Reader::next", 1, 2), ("app::serve", 1, 1)]
    {
        let entry = name(path, "entry");
        assert_eq!(
            (before.sites[&entry], first.sites[&entry]),
            (here, with),
            "{path}, {}",
            built.description()
        );
    }
    assert_eq!(second.sites, first.sites, "{}", built.description());
    for without in [&closed, &attached, &end] {
        assert_eq!(without.sites, before.sites, "{}", built.description());
    }

    for stage in [&first, &second] {
        assert_eq!(stage.hits, expected(1 + 1), "{}", built.description());
    }
    assert_eq!(attached.hits, expected(1 + 2), "{}", built.description());

    let attached_sites =
        |stage: &Transcript| -> usize { expected(0).keys().map(|name| stage.sites[name]).sum() };
    let (with, without) = (attached_sites(&first), attached_sites(&before));
    assert_eq!(first.rest, [format!("patched {with}"), format!("restored {with}")]);
    assert_eq!(second.rest, [format!("patched {with}")]);
    assert_eq!(attached.rest, [format!("restored {without}")]);
    assert_eq!(end.rest, ["ok"]);
}

/// A slice has a plugin in `link`.
#[test]
fn lld() {
    if whole::has("shipped::plugin::lld") {
        check_plugin("plugin_lld", Linker::Lld);
    }
}

#[test]
fn gnu() {
    if whole::has("shipped::plugin::gnu") {
        check_plugin("plugin_gnu", Linker::Gnu);
    }
}
