//! Checks that hold for every code base built by `probe_build`.
//!
//! Each check loads one build and counts all of the process's probes, so it needs its own process.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use probe_runtime::count::Counts;
use probe_runtime::losses::unreadable_records;
use probe_runtime::patch::{TextPolicy, Visibility};
use probe_runtime::{Count, Kind, probes, select};

use super::accounts::{Account, Outcome};
use super::object_file::{functions, hook_references};
use super::{Built, CodeBase, Way};
use crate::scenario::{asked, runs_in_a_child};
use crate::stops::Stops;
use crate::whole;

/// Builds everything that the checks of this way need, concurrently.
fn prepare(base: &CodeBase, root: &str, way: Way) {
    thread::scope(|scope| {
        for way in [Way::Counted, way] {
            scope.spawn(move || base.build(root, way));
        }
    });
}

/// Plays a scenario on a build, in a child process. The parent builds everything first. Parent and
/// child both run the test named `name`. A slice leaves out some ways of large code bases.
///
/// # Panics
/// If the scenario fails.
#[track_caller]
pub fn in_a_child(base: &CodeBase, root: &str, name: &str, way: Way, check: impl FnOnce(Way)) {
    if asked().is_none() {
        if !base.in_slices.contains(&way) && !whole::has(name) {
            return;
        }
        prepare(base, root, way);
        return runs_in_a_child(name, name);
    }
    check(way);
    println!("done: {name}");
}

/// Checks that each function has an account and is listed. Returns the build.
///
/// # Panics
/// If a function has no account, or is not listed.
#[must_use]
pub fn listing(base: &CodeBase, root: &str, way: Way) -> Built {
    let built = base.build(root, way);
    accounts_are_complete(&built);
    listing_is_right(base, &built);
    built
}

/// Checks that every function symbol of every object has an account, that every account has a
/// function, and that no object refers to a hook.
///
/// # Panics
/// If one of these does not hold.
pub fn accounts_are_complete(built: &Built) {
    let defined: Vec<BTreeSet<String>> = built.objects.iter().flat_map(|object| functions(object)).collect();
    let said: BTreeSet<&str> = built.accounts.iter().map(|it| it.symbol.as_str()).collect();
    assert!(!said.is_empty());
    // The compiler names outlined parts and clones after the function that they come from.
    let is_said = |symbol: &String| {
        let ends = symbol.match_indices('.').map(|(at, _)| at).chain([symbol.len()]);
        ends.into_iter().any(|end| said.contains(&symbol[..end]))
    };
    let missing: Vec<_> = defined.iter().filter(|names| !names.iter().any(is_said)).collect();
    assert!(missing.is_empty(), "without an account: {missing:?}");
    let all: BTreeSet<_> = defined.iter().flatten().map(String::as_str).collect();
    let invented: Vec<_> = said.difference(&all).collect();
    // Hooks also report functions that exist only as inlined copies.
    let may_be_inlined = built.way == Way::InstrumentFunctions;
    assert!(may_be_inlined || invented.is_empty(), "not in the objects: {invented:?}");
    let hooks: usize = built.objects.iter().map(|object| hook_references(object)).sum();
    assert_eq!(hooks, 0, "references to hooks");
}

/// Checks that the program's probes are those of the accounts, by path, kind, file and line, with
/// equally many sites. Each line has the function's name in the source.
///
/// # Panics
/// If one of these does not hold.
pub fn listing_is_right(base: &CodeBase, built: &Built) {
    let loaded = built.load();
    assert_eq!(unreadable_records(), 0);
    let mut listed = BTreeMap::new();
    for probe in probes() {
        let key =
            (probe.path().to_owned(), probe.file().to_owned(), probe.line(), probe.kind() == Kind::Exit);
        assert_ne!(probe.kind(), Kind::Point, "{probe}");
        assert_eq!(listed.insert(key, probe.sites()), None, "{probe} is there twice");
    }
    let mut told: BTreeMap<_, usize> = BTreeMap::new();
    for Account { path, file, line, outcome, .. } in &built.accounts {
        if let Outcome::Placed { entries, exits, .. } = outcome {
            for (is_exit, sites) in [(false, entries), (true, exits)] {
                if *sites != 0 {
                    *told.entry((path.clone(), file.clone(), *line, is_exit)).or_default() += sites;
                }
            }
        }
    }
    let keys =
        |map: &BTreeMap<(String, String, u32, bool), usize>| map.keys().cloned().collect::<BTreeSet<_>>();
    let differences: Vec<_> = keys(&listed).symmetric_difference(&keys(&told)).cloned().collect();
    assert!(differences.is_empty(), "either listed or told of: {differences:?}");
    if !base.is_cpp {
        // In C++, the linker keeps one of many copies.
        assert_eq!(listed, told);
    }
    names_are_on_their_lines(base, built);
    loaded.close();
}

/// Checks that the head of each function, up to its line, has the last part of its name. Compilers
/// report the line at which the body begins, and parameters may take several lines.
fn names_are_on_their_lines(base: &CodeBase, built: &Built) {
    let mut files: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut wrong = Vec::new();
    for Account { path, file, line, outcome, .. } in &built.accounts {
        if !matches!(outcome, Outcome::Placed { .. }) {
            continue;
        }
        let lines = files.entry(file).or_insert_with(|| {
            let bytes = fs::read(file).unwrap_or_else(|error| panic!("{path}: {file}: {error}"));
            String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect()
        });
        let above = &lines[..lines.len().min(usize::try_from(*line).expect("a line"))];
        // The line itself, and those before it up to the end of the preceding item.
        let is_end = |line: &&String| line.contains([';', '}']);
        let head = above.last().into_iter().chain(above.iter().rev().skip(1).take_while(|it| !is_end(it)));
        let is_made = base.made.iter().any(|made| path.starts_with(made));
        if !is_made && !head.into_iter().any(|text| has_name(text, path)) {
            wrong.push(format!("{path} {file}:{line} {:?}", above.last()));
        }
    }
    assert!(wrong.is_empty(), "{} lines without the function's name: {wrong:#?}", wrong.len());
}

/// Returns whether `text` names the function `path`. Lambdas have no name, but a `[`.
fn has_name(text: &str, path: &str) -> bool {
    let whole = path.split(".part").next().unwrap_or(path);
    let name = last_name(whole);
    text.replace(' ', "").contains(name.trim_start_matches('~'))
        || path.contains("{lambda") && text.contains('[')
}

/// Returns the last part of a C++ path, without template arguments.
fn last_name(path: &str) -> String {
    let (mut depth, mut name) = (0_usize, String::new());
    for letter in path.chars() {
        match letter {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            ':' if depth == 0 => name.clear(),
            _ if depth == 0 => name.push(letter),
            _ => {}
        }
    }
    name
}

/// Checks that the workload's digest equals that of the build with counters: while latent, while
/// everything is counted, and latent again. The counts equal those of the counters compiled in by
/// hand, for entries and for exits. Afterwards, the text equals the file's. Returns the counts.
///
/// # Panics
/// If one of these does not hold.
pub fn counts_are_right(base: &CodeBase, root: &str, way: Way, amount: u64) -> Counts {
    let (counted, loaded) = (base.load(root, Way::Counted), base.load(root, way));
    let digest = counted.workload(amount);
    let text = loaded.text();
    text.assert_as_in_file();
    assert_eq!(loaded.workload(amount), digest, "latent");
    let attachment = select("**").unwrap().attach(Count::new()).unwrap();
    assert_eq!((attachment.report().refused(), attachment.total()), (0, 0));
    assert_eq!(loaded.workload(amount), digest, "with everything counted");
    let counts = attachment.counts();
    let detached = attachment.detach();
    assert_eq!(detached.refused(), 0, "{detached}");
    text.assert_as_in_file();
    assert_eq!(loaded.workload(amount), digest, "latent again");
    for (function, calls) in base.counted.iter().zip(counted.counters()) {
        assert_ne!(calls, 0, "{function:?}");
        assert_eq!(counts.hits(function.path, Kind::Entry), Some(calls), "{function:?}");
        assert_eq!(counts.hits(function.path, Kind::Exit), Some(calls), "{function:?}");
    }
    counts
}

/// Returns the functions whose entries and exits differ in number, with both numbers.
pub fn unpaired(counts: &Counts) -> BTreeMap<String, (u64, u64)> {
    let mut hits: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for count in counts {
        let both = hits.entry(count.probe.path().to_owned()).or_default();
        *(if count.probe.kind() == Kind::Entry { &mut both.0 } else { &mut both.1 }) += count.hits;
    }
    hits.retain(|_, (entered, left)| entered != left);
    hits
}

/// Runs the workload on one thread while another attaches to sets of functions, pauses, resumes and
/// detaches. The digest stays that of the build with counters; afterwards, the text equals the
/// file's.
///
/// # Panics
/// If one of these does not hold.
pub fn toggling_changes_nothing(base: &CodeBase, root: &str, way: Way, amount: u64, selectors: &[&str]) {
    const ROUNDS: u64 = 20;
    let digest = base.load(root, Way::Counted).workload(amount);
    let loaded = base.load(root, way);
    let (stop, rounds) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let stops = Stops(&stop);
        let worker = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                assert_eq!(loaded.workload(amount), digest);
                rounds.fetch_add(1, Ordering::Relaxed);
            }
        });
        let is_over = || rounds.load(Ordering::Relaxed) >= ROUNDS || worker.is_finished();
        let mut hits = 0;
        while !is_over() {
            for (nth, selector) in selectors.iter().enumerate() {
                hits += toggle(selector, nth % 2 == 0, is_over);
            }
        }
        drop(stops);
        worker.join().expect("the same digest each time");
        assert_ne!(hits, 0);
    });
    loaded.text().assert_as_in_file();
    assert_eq!(loaded.workload(amount), digest);
}

/// Attaches, pauses and resumes, and waits for a hit. Returns the number of hits.
fn toggle(selector: &str, is_rapid: bool, is_over: impl Fn() -> bool) -> u64 {
    let (text, visibility, pauses) = if is_rapid {
        (TextPolicy::Open, Visibility::Eventual, 50)
    } else {
        (TextPolicy::Sealed, Visibility::Synchronous, 5)
    };
    let set = select(selector).unwrap().text_policy(text).visibility(visibility);
    let attachment = set.attach(Count::new()).unwrap();
    assert_eq!(attachment.report().refused(), 0, "{}", attachment.report());
    for _ in 0..pauses {
        assert_eq!(attachment.pause().refused() + attachment.resume().refused(), 0);
    }
    let before = attachment.total();
    while attachment.total() == before && !is_over() {
        thread::yield_now();
    }
    let hits = attachment.total();
    assert_eq!(attachment.detach().refused(), 0);
    hits
}
