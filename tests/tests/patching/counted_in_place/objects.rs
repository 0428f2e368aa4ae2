//! A plugin that comes and goes.

use probe_runtime::{Count, Kind, probes, select};
use probe_tests::library::Library;
use probe_tests::text::Text;

use super::seen::{mapping, switched_in, target};
use super::{hot, plugin};

/// The blocks of the plugin's probes. One with a field has none.
fn blocks() -> Vec<usize> {
    let targets = switched_in(&Text::of(&plugin())).into_iter().map(target);
    targets.filter(|target| !mapping(*target).unwrap().contains('/')).collect()
}

pub(super) fn come_and_go() {
    hot(1);
    let own = select("patching::counted_in_place::hot").unwrap().attach(Count::new()).unwrap();
    let mut total = None;
    let mut counted = None;
    for round in 1..=5_u64 {
        let library = Library::open(&plugin());
        let counted =
            counted.get_or_insert_with(|| select("plugin::**").unwrap().attach(Count::new()).unwrap());
        // The listing finds the loaded library.
        assert!(probes().iter().all(|probe| probe.foreign().is_empty()));
        assert_eq!((library.function("plugin_sum"))(2), 3);
        hot(1);
        let blocks = blocks();
        assert!(!blocks.is_empty());
        let pages: Vec<_> = blocks.iter().map(|block| mapping(*block).unwrap()).collect();
        assert!(pages.iter().all(|page| page.contains(" r-xp ")), "{pages:?}");
        let once = *total.get_or_insert_with(|| counted.total());
        assert_eq!(counted.total(), once * round);
        library.close();
        if round % 2 == 0 {
            // The listing notices the unloaded library: its blocks are gone, and others' are not.
            let _ = probes();
            let is_gone = |block: &usize| mapping(*block).is_none_or(|now| !pages.contains(&now));
            assert!(blocks.iter().all(is_gone), "round {round}");
        }
        assert_eq!(counted.total(), once * round, "what it has counted stays");
    }
    let hits = own.counts();
    assert_eq!(hits.hits("patching::counted_in_place::hot", Kind::Entry), Some(5));
}
