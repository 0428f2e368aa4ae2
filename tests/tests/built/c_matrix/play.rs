//! One object in all states, in a process of its own.

use std::collections::BTreeMap;
use std::env;

use probe_build::Sites;
use probe_runtime::count::Counts;
use probe_runtime::losses::{lost_hits, unreadable_records};
use probe_runtime::{Attachment, Count, Kind, probes, select};
use probe_tests::c::{Compiler, Counter, Function, Language, Object, Tally, hits_by_function};
use probe_tests::destroyer::Destroyer;
use probe_tests::text::Text;

use super::reference::{compare, path};
use super::{NAMED, NOTES, OBJECT, RECIPE};

/// The object that the parent has built.
pub(super) fn recipe() -> (Compiler, Language, Sites) {
    let recipe = env::var(RECIPE).expect("the parent has set it");
    let words: Vec<_> = recipe.split_whitespace().collect();
    let find = |names: &[&str], word: &str| names.iter().position(|name| *name == word).expect("a name");
    (
        Compiler::ALL[find(&["Gcc", "Clang"], words[0])],
        [Language::C, Language::Cpp][find(&["C", "Cpp"], words[1])],
        [Sites::EntryReturn, Sites::InstrumentFunctions, Sites::None]
            [find(&["EntryReturn", "InstrumentFunctions", "None"], words[2])],
    )
}

pub(super) fn play() {
    let (compiler, language, sites) = recipe();
    let (object, notes) = (Object::open(&path(OBJECT)), path(NOTES));
    let named = env::var(NAMED).unwrap_or_default().split(';').map(str::to_owned).collect();
    let check = Check { object: &object, compiler, sites, named };
    let run = |state: &str| compare(&object, language, &notes, state);

    run("latent");
    assert_eq!(unreadable_records(), 0);
    check.every_function_has_its_probe();
    let all = select("**").unwrap();
    let counted = |state: &str, count: &Attachment<Count>| {
        let before = (object.counters(), count.counts());
        run(state);
        check.counts(state, &before, &(object.counters(), count.counts()));
    };

    let count = all.attach(Count::new()).unwrap();
    assert_eq!(count.report().refused(), 0, "{}", count.report());
    counted("counted", &count);
    let destroyer = if sites == Sites::EntryReturn {
        Destroyer::default()
    } else {
        Destroyer::where_calls_are_expected()
    };
    let destroyer = all.attach(destroyer).unwrap();
    counted("counted and destroyed", &count);
    assert_eq!((destroyer.failure(), destroyer.surprised(), lost_hits()), (None, 0, 0));
    let before = (count.total(), destroyer.calls() + destroyer.suppressed());
    run("destroyed");
    assert_eq!(destroyer.calls() + destroyer.suppressed() - before.1, count.total() - before.0);
    if language == Language::C {
        check.interrupted(&count, 3);
        drop(destroyer);
        check.interrupted(&count, 40);
        run("counted again");
    } else {
        drop(destroyer);
    }
    assert_eq!(count.detach().refused(), 0);
    run("latent again");
    Text::of(&object.path).assert_as_in_file();
    if language == Language::C {
        destructor_is_counted(object);
    }
}

struct Check<'a> {
    object: &'a Object,
    compiler: Compiler,
    sites: Sites,
    /// Functions that the build has named as without some of their sites.
    named: Vec<String>,
}

impl Check<'_> {
    /// Checks that every function that counts has an entry probe, and an exit probe if it has an
    /// exit; and that every probe is of such a function, or of one that the compiler has made.
    fn every_function_has_its_probe(&self) {
        let counters = self.object.counters();
        let count = select("**").unwrap().attach(Count::new()).unwrap();
        let hits = hits_by_function(&count.counts());
        let missing: Vec<_> = (counters.iter())
            .filter(|(function, counter)| counter.tally != Tally::IfPlaced && !hits.contains_key(function))
            .filter(|(function, _)| !self.named.contains(&function.0))
            .map(|(function, _)| function)
            .collect();
        let foreign: Vec<_> = (hits.keys())
            .filter(|function| !counters.contains_key(*function))
            .filter(|(path, _)| !is_made_by_the_compiler_or_uncounted(path))
            .collect();
        assert!(
            missing.is_empty() && foreign.is_empty(),
            "without probe: {missing:?}\nwithout counter: {foreign:?}"
        );
        for probe in probes() {
            let has_line = probe.line() > 0 || is_made_by_the_compiler_or_uncounted(probe.path());
            assert!(has_line && probe.sites() > 0 && probe.kind() != Kind::Point, "{probe}");
            assert!(!probe.file().starts_with("/usr/include"), "{probe}");
        }
    }

    /// The probes' counts equal the functions' own.
    fn counts(
        &self,
        state: &str,
        before: &(BTreeMap<Function, Counter>, Counts),
        after: &(BTreeMap<Function, Counter>, Counts),
    ) {
        let (hits_before, hits_after) = (hits_by_function(&before.1), hits_by_function(&after.1));
        let mut wrong = Vec::new();
        let mut total = 0;
        for (function, counter) in &after.0 {
            let counter = counter.since(before.0[function]);
            let Some(hits) = hits_after.get(function) else { continue };
            let hits_before = hits_before[function];
            let [entries, exits] =
                [0, 1].map(|kind| hits[kind].unwrap_or(0) - hits_before[kind].unwrap_or(0));
            let expected = (counter.entries, counter.exits(self.compiler, self.sites));
            let is_right = match counter.tally {
                _ if self.named.contains(&function.0) => entries <= expected.0 && exits <= expected.1,
                Tally::Exact | Tally::IfPlaced => (entries, exits) == expected,
                Tally::Tail => entries == expected.0 && [expected.0, expected.1].contains(&exits),
                Tally::Structor => entries == exits && (expected.0..=2 * expected.0).contains(&entries),
            };
            if !is_right {
                wrong.push(format!("{function:?}: {:?} hits, {expected:?} expected", (entries, exits)));
            }
            total += entries + exits;
        }
        assert!(wrong.is_empty(), "{state}: entries and exits: {wrong:#?}");
        assert!(total > 100, "{state}: {total}");
    }

    /// Sends signals at any moment, and after every instruction of functions and of the runtime.
    fn interrupted(&self, count: &Attachment<Count>, signals: i64) {
        // SAFETY: the types in tests/c/jumps.c.
        let storm: extern "C" fn(i64) -> i64 =
            unsafe { std::mem::transmute(self.object.library.symbol("torture_storm")) };
        // SAFETY: as above.
        let step: extern "C" fn(usize, *mut f64) -> i64 =
            unsafe { std::mem::transmute(self.object.library.symbol("torture_step")) };
        let before = (self.object.counters(), count.counts());
        let hits = count.total();
        let mut result = 0.0;
        let wrong = storm(signals);
        let steps = step(0, &raw mut result);
        assert_eq!((wrong, result.to_bits()), (0, 134.0_f64.to_bits()));
        let after = (self.object.counters(), count.counts());
        assert!(steps > 50 && count.total() - hits > 100, "{steps} steps");
        let wrong = |(function, counter): (&Function, &Counter)| {
            let counter = counter.since(before.0[function]);
            let [was, is] =
                [&before.1, &after.1].map(|counts| hits_by_function(counts).get(function).copied());
            let hits = |kind: usize| is.map(|is| is[kind].unwrap_or(0) - was.unwrap()[kind].unwrap_or(0));
            let expected = (Some(counter.entries), Some(counter.exits(self.compiler, self.sites)));
            (is.is_some() && !self.named.contains(&function.0) && (hits(0), hits(1)) != expected)
                .then(|| format!("{function:?}: {:?}, {expected:?}", (hits(0), hits(1))))
        };
        let wrong: Vec<_> = after.0.iter().filter_map(wrong).collect();
        assert!(wrong.is_empty(), "interrupted: {wrong:#?}");
    }
}

/// In the language's own headers and by the compiler there is more than what counts.
fn is_made_by_the_compiler_or_uncounted(path: &str) -> bool {
    let uncounted = [
        "thunk", "_GLOBAL_", "__static_initialization", "{lambda", "$_", "objects::Left::",
        "objects::Right::", "objects::Both::", "objects::Side::", "objects::Diamond::~Diamond",
        "exceptions::Guard::~Guard", "exceptions::Fragile::Fragile", "exceptions::Fragile::~Fragile",
        "Busy::~Busy", "coroutines", "objects::add", "templates::counters<", "templates::Stack<int>::Stack",
        "templates::Stack<double>::Stack", "__tls_init", "objects::local", "_mm_", "_sub_I_", "_sub_D_",
        "san.module_", "TLSwrapper", "TLSinit", "__cxx_global_var_init", "__clang_call_terminate",
    ];
    uncounted.iter().any(|part| path.contains(part))
}

/// It runs when the object goes, and is counted.
fn destructor_is_counted(object: Object) {
    let count = select("destruct").unwrap().attach(Count::new()).unwrap();
    object.library.close();
    let hits = |kind| count.counts().hits("destruct", kind);
    assert_eq!((hits(Kind::Entry), hits(Kind::Exit)), (Some(1), Some(1)));
}
