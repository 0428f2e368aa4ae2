//! Tables as people read them: their order, rows left out by default, and definitions of one name.

use std::time::Duration;

use probe_runtime::spec::attach_spec;
use probe_runtime::{CallTree, Count, Latency, Perf, ProbeInfo, Profiler, Slow, probe, select};

mod counted {
    use super::probe;

    #[probe]
    #[inline(never)]
    pub fn seldom() {}

    #[probe]
    #[inline(never)]
    pub fn often() {
        probe!("inside");
    }

    #[probe]
    #[inline(never)]
    pub fn never() {
        probe!("nowhere");
    }
}

/// The words of each line.
fn words(text: &str) -> Vec<Vec<&str>> {
    text.lines().map(|line| line.split_whitespace().collect()).collect()
}

#[test]
fn counts_begin_with_the_most_hits_and_fold_what_was_never_hit() {
    let calls = || {
        (0..12).for_each(|_| counted::often());
        counted::seldom();
    };
    let attached =
        ["count", "count(all)"].map(|it| attach_spec(&format!("sites::tables::counted::*={it}")).unwrap());
    let hits = select("sites::tables::counted::*").unwrap().attach(Count::new()).unwrap();
    // Where nobody calls it, the linker may leave it out.
    std::hint::black_box(counted::never as fn());
    calls();
    let sites =
        |path: &str| hits.probes().iter().find(|it| it.path().ends_with(path)).unwrap().sites().to_string();
    let [exits_of_often, exits_of_seldom, exits_of_never] = ["often", "seldom", "never"].map(|name| {
        let is_exit = |it: &&ProbeInfo| it.path().ends_with(name) && it.kind() == probe_runtime::Kind::Exit;
        hits.probes().iter().find(is_exit).unwrap().sites().to_string()
    });
    let (inside, nowhere) = (sites("::inside"), sites("::nowhere"));
    let seen = [
        ["probe", "kind", "sites", "hits"],
        ["sites::tables::counted::inside", "point", &inside, "12"],
        ["sites::tables::counted::often", "entry", "1", "12"],
        ["sites::tables::counted::often", "exit", &exits_of_often, "12"],
        ["sites::tables::counted::seldom", "entry", "1", "1"],
        ["sites::tables::counted::seldom", "exit", &exits_of_seldom, "1"],
    ];
    let unseen = [
        ["sites::tables::counted::never", "entry", "1", "0"],
        ["sites::tables::counted::never", "exit", &exits_of_never, "0"],
        ["sites::tables::counted::nowhere", "point", &nowhere, "0"],
    ];
    let folded = [seen.map(Vec::from).as_slice(), &[["3", "probes", "were", "never", "hit"].into()]].concat();
    let all = [seen.as_slice(), &unseen].concat();
    assert_eq!(words(&hits.to_string()), folded);
    assert_eq!(words(&hits.counts().to_string()), folded);
    assert_eq!(words(&attached[0][0].to_string()), folded);
    assert_eq!(words(&format!("{hits:#}")), all);
    assert_eq!(words(&format!("{:#}", hits.counts())), all);
    assert_eq!(words(&attached[1][0].to_string()), all);
    // For programs, all rows are there, by their paths.
    let csv = hits.counts().to_csv();
    let paths: Vec<_> = csv.lines().skip(1).map(|line| line.split(',').next().unwrap()).collect();
    assert_eq!((paths.len(), paths.is_sorted()), (8, true), "{csv}");
    assert_eq!(attached[0][0].to_json().matches("\"hits\":0").count(), 3);
    assert!(!format!("{hits:#}{}", attached[1]).contains("never hit"));

    let one = select("sites::tables::counted::never kind=entry").unwrap().attach(Count::new()).unwrap();
    assert_eq!(one.to_string(), "probe  kind  sites  hits\n1 probe was never hit");
}

mod named {
    use super::probe;

    pub const FIRST: u32 = line!() + 4;

    #[probe(name = "same")]
    #[inline(never)]
    pub fn first() {
        super::pass();
    }

    pub const SECOND: u32 = line!() + 4;

    #[probe(name = "same")]
    #[inline(never)]
    pub fn second() {
        super::pass();
        other();
    }

    #[probe]
    #[inline(never)]
    pub fn other() {
        super::pass();
    }

    /// Its other definition is never called.
    #[probe(name = "other")]
    #[inline(never)]
    pub fn uncalled() {}
}

/// Long enough to be timed.
fn pass() {
    std::hint::black_box((0..1000).fold(0_u64, |sum, n| sum ^ std::hint::black_box(n)));
}

/// Returns the names of the rows, sorted.
fn names(text: &str, is_name: impl Fn(&str) -> bool) -> Vec<String> {
    let lines = text.lines().filter_map(|line| Some(line[line.find("sites::tables::named::")?..].to_owned()));
    let name = |line: String| {
        let end = line.find("  ").unwrap_or(line.len());
        line[..end].to_owned()
    };
    let mut names: Vec<_> = lines.map(name).filter(|it| is_name(it)).collect();
    names.sort();
    names
}

#[test]
fn functions_of_one_name_say_where_they_are() {
    let set = || select("sites::tables::named::*").unwrap();
    let latency = set().attach(Latency::new()).unwrap();
    let slow = set().attach(Slow::over(Duration::from_secs(3600))).unwrap();
    let tree = set().attach(CallTree::new()).unwrap();
    let profiler = set().attach(Profiler::new().stepped()).unwrap();
    let perf = set().attach(Perf::new().with_counts(|_| Ok(7))).unwrap();
    let hits = set().attach(Count::new()).unwrap();
    let entries = select("sites::tables::named::* kind=entry").unwrap().attach(Count::new()).unwrap();
    std::hint::black_box(named::uncalled as fn());
    named::first();
    named::second();
    // A tree hides rows of less than 0.1 %: all others, if one call is interrupted for long.
    while tree.to_string().contains("not shown") {
        named::first();
        named::second();
    }
    let same = |line: u32| format!("sites::tables::named::same (tests/tests/sites/tables.rs:{line})");
    let (first, second) = (same(named::FIRST), same(named::SECOND));
    // That one row is called alike in a table of its own makes no other one ambiguous.
    let other = "sites::tables::named::other".to_owned();
    let called = [other.clone(), first.clone(), second.clone()];
    let all = |_: &str| true;
    for table in
        [latency.to_string(), slow.to_string(), tree.to_string(), profiler.to_string(), perf.to_string()]
    {
        assert_eq!(names(&table, all), called, "{table}");
    }
    assert_eq!(names(&entries.to_string(), all), called, "{entries}");
    assert_eq!(names(&hits.to_string(), all).len(), 6, "{hits}");
    let everything =
        names(&format!("{entries:#}"), |it| it.contains("::other (tests/tests/sites/tables.rs:"));
    assert_eq!(everything.len(), 2, "{entries:#}");
    // Programs have columns for that.
    for csv in [latency.latencies().to_csv(), profiler.profile().to_csv(), entries.counts().to_csv()] {
        assert_eq!(csv.matches("sites::tables::named::same,").count(), 2, "{csv}");
    }
    // A narrow tree keeps the end.
    let narrow = format!("{:62}", tree.tree());
    assert!(!narrow.contains(&second) && narrow.contains(&second[second.len() - 19..]), "{narrow}");
}
