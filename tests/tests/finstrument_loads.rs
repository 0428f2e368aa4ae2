//! Objects that are loaded while many call sites are known. Operations read the new objects alone,
//! with the same result as reading all of them.
//! Each scenario is a process of its own: it counts all discoveries and compares addresses.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_portable, probe_off))))]

use std::env;
use std::fs;
use std::hint::black_box;
use std::ops::Range;
use std::path::{Path, PathBuf};

use probe_runtime::patch::{RefusalReason, TextPolicy};
use probe_runtime::registry::ProbeState;
use probe_runtime::{Attachment, Count, ProbeInfo, finstrument, probe, probes, select};
use probe_tests::fixture::Configuration;
use probe_tests::instrumented::{calls_at, folder, shared, source};
use probe_tests::library::Library;
use probe_tests::pages::{PAGE, rights};
use probe_tests::scenario;
use probe_tests::text::Text;

/// The variable that tells the children the plugins' folder.
const PLUGINS: &str = "PROBE_TEST_PLUGINS";

/// The number of functions of each object.
const EACH: usize = 300;

#[probe]
#[inline(never)]
fn own(x: u64) -> u64 {
    black_box(x) + 1
}

#[test]
fn what_was_discovered_is_not_looked_at_again() {
    scenario::pass("discovered", &[]);
}

#[test]
fn an_object_that_comes_back_to_its_place_is_discovered_anew() {
    scenario::pass("again within a word", &[]);
    scenario::pass("again across two words", &[]);
}

#[test]
fn a_copy_of_an_attached_function_joins() {
    scenario::pass("copy", &[]);
}

#[test]
fn copies_of_attached_probes_become_active() {
    with_plugins("plugins");
}

#[test]
fn what_another_runtime_has_taken_stays_its_own() {
    with_plugins("taken");
}

/// Plays a scenario that needs the plugins of `life_plugins`.
fn with_plugins(name: &str) {
    let configuration =
        Configuration::new(env!("CARGO_TARGET_TMPDIR"), "link", "life").release_on_plain_runtime();
    configuration.build("plugin");
    configuration.build("caller");
    let built = configuration.build("guest");
    scenario::pass(name, &[(PLUGINS, built.path("").as_os_str())]);
}

#[test]
#[ignore = "other tests play it, in children"]
fn scenario() {
    let asked = scenario::to_play();
    match asked.as_str() {
        "discovered" => discovered(),
        "again within a word" => again(0, false),
        // Active calls have the same bytes as in the file.
        "again across two words" => again(5, true),
        "copy" => copy(),
        "plugins" => plugins(),
        "taken" => taken(),
        other => panic!("no scenario {other}"),
    }
}

fn plugin(name: &str) -> PathBuf {
    PathBuf::from(env::var_os(PLUGINS).unwrap()).join(format!("lib{name}.so"))
}

/// Copies a file to another name, which the dynamic linker takes for another object.
fn another(path: &Path, folder: &Path, name: &str) -> PathBuf {
    let copy = folder.join(name);
    fs::copy(path, &copy).unwrap();
    copy
}

/// An object whose functions' calls all lie within a word, or all across two.
struct Instrumented {
    path: PathBuf,
    names: Vec<String>,
}

impl Instrumented {
    fn new(prefix: &str, offset: usize) -> Self {
        let names: Vec<String> = (0..EACH).map(|number| format!("{prefix}{number:03}")).collect();
        let shown: Vec<&str> = names.iter().map(String::as_str).collect();
        let file = source(&folder(prefix), &format!("{prefix}.s"), &calls_at(offset, &shown));
        Self { path: shared("gcc", &file, &format!("{prefix}.so"), &[]), names }
    }

    /// Calls each function twice: the second call patches pending sites.
    fn call_all(&self, library: &Library) {
        for (name, number) in self.names.iter().zip(1..) {
            assert_eq!([library.function(name)(0), library.function(name)(1)], [number, number + 1]);
        }
    }
}

/// Returns the numbers of the late report: patched, unchanged, refused.
fn late(attachment: &Attachment<Count>) -> (usize, usize, usize) {
    let late = attachment.late_report();
    (late.patched(), late.unchanged(), late.refused())
}

fn page_of(addr: usize) -> Range<usize> {
    let start = addr & !(PAGE - 1);
    start..start + PAGE
}

fn listed(prefix: &str) -> Vec<(ProbeInfo, usize, ProbeState)> {
    let ours = probes().into_iter().filter(|it| it.path().starts_with(prefix));
    ours.map(|it| (it.clone(), it.sites(), it.state())).collect()
}

fn discovered() {
    let (within, across) = (Instrumented::new("within", 0), Instrumented::new("across", 5));
    let libraries = [Library::open(&within.path), Library::open(&across.path)];
    finstrument::start();
    within.call_all(&libraries[0]);
    across.call_all(&libraries[1]);
    let hits = select("within*, across*").unwrap().attach(Count::new()).unwrap();
    assert_eq!((hits.report().patched(), hits.report().refused()), (4 * EACH, 0));
    let before = [listed("within"), listed("across")];
    assert!(before.iter().flatten().all(|(_, sites, state)| (*sites, *state) == (1, ProbeState::Active)));
    assert_eq!(before[0].len() + before[1].len(), 4 * EACH);

    // Operations don't read attached sites again when objects are loaded. Functions of new objects
    // are discovered after an operation has found the object, or before.
    let other = Instrumented::new("other", 3);
    let came = Library::open(&other.path);
    assert_eq!(late(&hits), (0, 0, 0));
    other.call_all(&came);
    let late_one = Instrumented::new("third", 5);
    let third = Library::open(&late_one.path);
    late_one.call_all(&third);
    assert_eq!((listed("other").len(), listed("third").len()), (2 * EACH, 2 * EACH));
    assert_eq!(late(&hits), (0, 0, 0));
    assert_eq!([listed("within"), listed("across")], before);
    let is_latent =
        |(_, sites, state): &(ProbeInfo, usize, ProbeState)| (*sites, *state) == (1, ProbeState::Latent);
    assert!(listed("other").iter().chain(&listed("third")).all(is_latent));

    // The new functions are probes like the others.
    let theirs =
        select("other*, third*").unwrap().text_policy(TextPolicy::Open).attach(Count::new()).unwrap();
    assert_eq!((theirs.report().patched(), theirs.report().refused()), (4 * EACH, 0));
    let of_text = |library: &Library, name: &str| rights(&page_of(library.symbol(name).addr()));
    assert_eq!([of_text(&came, "other000"), of_text(&third, "third000")], [["rwxp"], ["rwxp"]]);
    assert_eq!(of_text(&libraries[0], "within000"), ["r-xp"]);
    let total = hits.total();
    for (library, object) in [(&came, &other), (&third, &late_one), (&libraries[1], &across)] {
        object.call_all(library);
    }
    assert_eq!((theirs.total(), hits.total() - total), (8 * EACH as u64, 4 * EACH as u64));
    assert_eq!((theirs.pause().patched(), theirs.resume().patched()), (4 * EACH, 4 * EACH));

    // After an object is unloaded, operations read all sites.
    came.close();
    assert_eq!((late(&hits), late(&theirs)), ((0, 4 * EACH, 0), (0, 2 * EACH, 0)));
    assert!(select("other*").is_err());
    assert_eq!([listed("within"), listed("across")], before);
    assert_eq!(theirs.detach().patched(), 2 * EACH);
    assert_eq!(of_text(&third, "third000"), ["r-xp"]);
    assert_eq!(hits.detach().patched(), 4 * EACH);
}

/// Loads an object again and again. `is_kept` tells whether the runtime takes its calls for those
/// of the previous load if no operation ran in between.
fn again(offset: usize, is_kept: bool) {
    let known = Instrumented::new("known", 0);
    let library = Library::open(&known.path);
    finstrument::start();
    let calls = finstrument::attach(Count::new(), 20 * EACH).unwrap();
    known.call_all(&library);
    assert_eq!(calls.total(), 4 * EACH as u64);
    let coming = Instrumented::new("coming", offset);
    let mut places = Vec::new();
    let mut lists = Vec::new();
    for round in 1..=4 {
        let came = Library::open(&coming.path);
        places.push(came.symbol("coming000").addr());
        if round % 2 == 0 {
            // In these rounds, an operation lists the object before its first discovery.
            let is_taken_for_the_last = is_kept && round == 4;
            assert_eq!(listed("coming").len(), if is_taken_for_the_last { 2 * EACH } else { 0 });
        }
        coming.call_all(&came);
        let seen: Vec<_> =
            listed("coming").into_iter().map(|(it, sites, state)| (it.id(), sites, state)).collect();
        assert_eq!(seen.len(), 2 * EACH);
        assert!(seen.iter().all(|(_, sites, state)| (*sites, *state) == (1, ProbeState::Active)));
        lists.push(seen);
        coming.call_all(&came);
        assert_eq!(calls.total(), (4 + round * 8) * EACH as u64);
        came.close();
        // After the last rounds, no operation notices the unloading.
        if round < 3 {
            assert!(listed("coming").is_empty());
        }
    }
    // The first round maps memory for discoveries, so the object's address may change after it.
    assert!(places[1..].iter().all(|place| *place == places[1]), "{places:x?}");
    assert!(lists.iter().all(|list| *list == lists[0]));
    let stats = finstrument::stats();
    assert_eq!((stats.discovered, stats.lost), (if is_kept { 8 } else { 10 } * EACH, 0), "{stats:?}");
    assert_eq!(stats.beyond_capacity, 0, "{stats:?}");
    known.call_all(&library);
    assert_eq!(calls.counts().iter().count(), 4 * EACH);
    drop(calls);
    library.close();
}

const TWICE: &str = "unsigned long twice(unsigned long x) { return 2 * x; }\n\
    unsigned long thrice(unsigned long x) { return 3 * x; }\n";

fn copy() {
    let known = Instrumented::new("known", 5);
    let first_library = Library::open(&known.path);
    finstrument::start();
    known.call_all(&first_library);
    let folder = folder("copy");
    let path = shared("gcc", &source(&folder, "twice.c", TWICE), "twice.so", &["-O1"]);
    let library = Library::open(&path);
    for _ in 0..2 {
        assert_eq!((library.function("twice")(1), library.function("thrice")(1)), (2, 3));
    }
    let hits = select("twice").unwrap().attach(Count::new()).unwrap();
    let others = select("known*").unwrap().attach(Count::new()).unwrap();
    assert_eq!((hits.report().patched(), others.report().patched()), (2, 2 * EACH));

    // A copy's function has the same debug information, so it is the same probe.
    let path = another(&path, &folder, "copy.so");
    for round in 1..=3 {
        let copy = Library::open(&path);
        assert_eq!(late(&others), if round == 1 { (0, 0, 0) } else { (0, 2 * EACH, 0) });
        assert_eq!((copy.function("twice")(2), copy.function("thrice")(2)), (4, 6));
        let sites: usize = select("twice").unwrap().probes().iter().map(ProbeInfo::sites).sum();
        assert_eq!(sites, 4);
        assert_eq!(late(&hits), (2, 2, 0), "{}", hits.late_report());
        let total = hits.total();
        assert_eq!((copy.function("twice")(3), library.function("twice")(4)), (6, 8));
        assert_eq!((copy.function("thrice")(3), hits.total()), (9, total + 4));
        assert_eq!((hits.pause().patched(), hits.resume().patched()), (4, 4));
        copy.close();
        assert_eq!((late(&hits), late(&others)), ((0, 2, 0), (0, 2 * EACH, 0)));
        assert_eq!(library.function("twice")(5), 10);
    }
    assert_eq!((hits.detach().patched(), others.detach().patched()), (2, 2 * EACH));
    Text::of_this_process().assert_as_in_file();
}

fn plugins() {
    let known = Instrumented::new("known", 0);
    let calls = Library::open(&known.path);
    finstrument::start();
    known.call_all(&calls);
    assert_eq!(own(1), 2);
    let library = Library::open(&plugin("plugin"));
    let hits = select("plugin::**, **::own").unwrap().attach(Count::new()).unwrap();
    let others = select("known*").unwrap().attach(Count::new()).unwrap();
    assert_eq!((hits.report().patched(), others.report().patched()), (7, 2 * EACH));

    // The object has its own probes.
    let caller = Library::open(&plugin("caller"));
    assert_eq!(select("caller::**").unwrap().len(), 4);
    assert_eq!((late(&hits), late(&others)), ((0, 0, 0), (0, 0, 0)));

    let path = another(&plugin("plugin"), &folder("plugins"), "another.so");
    for round in 1..=3 {
        let copy = Library::open(&path);
        // The copy's sites, and the previous sites of its probes; no others.
        assert_eq!(late(&hits), (5, 5, 0), "{}", hits.late_report());
        assert_eq!(late(&others), if round == 1 { (0, 0, 0) } else { (0, 2 * EACH, 0) });
        let sites: usize = select("plugin::**").unwrap().probes().iter().map(ProbeInfo::sites).sum();
        assert_eq!(sites, 10);
        let total = hits.total();
        assert_eq!((copy.function("plugin_sum")(3), library.function("plugin_sum")(2)), (6, 3));
        assert_eq!(hits.total() - total, 2 * 2 + 3 * (3 + 2));
        assert_eq!((hits.pause().patched(), hits.resume().patched()), (12, 12));
        // Calls of `known` are discovered while the copy is loaded.
        known.call_all(&calls);
        copy.close();
        assert_eq!((late(&hits), late(&others)), ((0, 7, 0), (0, 2 * EACH, 0)));
    }
    assert_eq!((hits.detach().patched(), others.detach().patched()), (7, 2 * EACH));
    caller.close();
    library.close();
    calls.close();
    Text::of_this_process().assert_as_in_file();
}

fn taken() {
    let known = Instrumented::new("known", 0);
    let calls = Library::open(&known.path);
    finstrument::start();
    known.call_all(&calls);
    let library = Library::open(&plugin("plugin"));
    let hits = select("plugin::**").unwrap().attach(Count::new()).unwrap();
    assert_eq!(hits.report().patched(), 5);
    let guest = Library::open(&plugin("guest"));
    let (attach, total) = (guest.getter("guest_attach"), guest.getter("guest_total"));
    assert_eq!(late(&hits), (0, 0, 0));

    // The guest attaches to the copy's entries before an operation of this runtime finds the copy.
    library.close();
    let folder = folder("taken");
    let path = another(&plugin("plugin"), &folder, "first.so");
    let first = Library::open(&path);
    let theirs = attach();
    assert_eq!(theirs, 4, "its own entry, this program's, and two of the copy's");
    assert_eq!(late(&hits), (3, 0, 2), "{}", hits.late_report());
    let is_taken = || hits.late_report().refusals().iter().all(|it| *it.reason() == RefusalReason::Taken);
    assert!(is_taken());
    // The guest keeps these sites when further objects are loaded.
    for round in 1..=2 {
        let next = Library::open(&another(&plugin("plugin"), &folder, &format!("next{round}.so")));
        assert_eq!(late(&hits), (5, 5 * round - 2, 2), "{}", hits.late_report());
        assert!(is_taken());
        let sites: usize = select("plugin::**").unwrap().probes().iter().map(ProbeInfo::sites).sum();
        assert_eq!(sites, 5 * round + 5);
        let before = (hits.total(), total());
        assert_eq!((first.function("plugin_sum")(1), next.function("plugin_sum")(1)), (1, 1));
        assert_eq!((hits.total() - before.0, total() - before.1), (3 + 5, 2));
        assert_eq!((hits.pause().patched(), hits.resume().patched()), (5 * round + 3, 5 * round + 3));
    }
    assert_eq!((hits.detach().patched(), guest.getter("guest_detach")()), (13, theirs));
    Text::of_this_process().assert_as_in_file();
}
