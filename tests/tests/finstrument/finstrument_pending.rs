//! Functions are discovered one after the other, with operations in between. These look only at new
//! functions; the outcome is that of a look at everything.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_portable, probe_off))))]

mod named;
mod profiled;

use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;

use probe_runtime::aggregate::Group;
use probe_runtime::latency::FunctionLatency;
use probe_runtime::patch::TextPolicy;
use probe_runtime::registry::{ProbeState, discover_probes};
use probe_runtime::{
    Aggregate, Attachment, CallTree, Count, Kind, Latency, ProbeInfo, finstrument, probes, select,
    select_persistent,
};
use probe_tests::instrumented::{calls_at, folder, load, shared, source};
use probe_tests::library::Library;
use probe_tests::scenario::{self, in_a_child};

#[test]
fn each_joins_an_attachment_to_all() {
    scenario::runs_in_a_child("scenario", "counted");
}

#[test]
fn a_call_site_that_comes_later_is_its_probes() {
    scenario::runs_in_a_child("scenario", "later");
}

#[test]
fn a_probe_that_is_held_stays_latent_at_new_call_sites() {
    scenario::runs_in_a_child("scenario", "held");
}

#[test]
fn sites_that_came_one_by_one_are_switched_in_open_text() {
    scenario::runs_in_a_child("scenario", "open");
}

#[test]
fn each_joins_any_consumer() {
    scenario::runs_in_a_child("scenario", "any");
}

#[test]
fn functions_join_what_the_environment_names_without_an_operation() {
    scenario::pass("promptly", &[("PROBES", OsStr::new("promptly*=joined"))]);
}

#[test]
fn functions_that_are_found_at_the_start_join_too() {
    scenario::pass("start", &[("PROBES", OsStr::new("start*=joined"))]);
}

#[test]
fn a_function_is_whole_with_the_last_of_its_probes() {
    scenario::runs_in_a_child("scenario", "whole");
}

#[test]
fn a_profiler_has_a_function_with_the_last_of_its_probes() {
    scenario::runs_in_a_child("scenario", "profiled");
}

#[test]
fn memory_grows_with_the_functions_that_join() {
    scenario::runs_in_a_child("scenario", "memory");
}

#[test]
#[ignore = "other tests play it, in children"]
fn scenario() {
    let asked = scenario::to_play();
    match asked.as_str() {
        "counted" => counted(),
        "later" => later(),
        "held" => held(),
        "any" => any(),
        "promptly" => named::promptly(),
        "start" => named::start(),
        "memory" => memory(),
        "whole" => whole(),
        "profiled" => profiled::profiled(),
        "open" => open(),
        other => panic!("no scenario {other}"),
    }
    println!("done: {asked}");
}

/// Functions whose calls lie within a word, and as many whose lie across two.
const EACH: usize = 400;

fn names(prefix: &str) -> Vec<String> {
    (0..EACH).map(|number| format!("{prefix}{number:03}")).collect()
}

fn library(name: &str, offset: usize, names: &[String]) -> PathBuf {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let file = source(&folder(name), &format!("{name}.s"), &calls_at(offset, &names));
    shared("gcc", &file, &format!("{name}.so"), &[])
}

/// Returns the listed state, which a look at all objects must not change.
fn listed(prefixes: [&str; 2]) -> Vec<(ProbeInfo, usize, ProbeState)> {
    let is_ours = |it: &ProbeInfo| prefixes.iter().any(|prefix| it.path().starts_with(prefix));
    let ours = probes().into_iter().filter(is_ours);
    ours.map(|it| (it.clone(), it.sites(), it.state())).collect()
}

fn counted() {
    let (within, across) = (names("in"), names("out"));
    let libraries =
        [Library::open(&library("within", 0, &within)), Library::open(&library("across", 5, &across))];
    let other = library("unrelated", 0, &names("unrelated"));
    let calls = finstrument::attach(Count::new(), 4 * EACH).unwrap();
    for at in 0..EACH {
        for (library, names) in libraries.iter().zip([&within, &across]) {
            let function = library.function(&names[at]);
            for call in 0..=u64::from(at % 3 == 0) {
                assert_eq!(function(call), call + 1 + at as u64);
            }
            finstrument::start();
        }
        if at % 50 == 0 {
            let counts = calls.counts();
            assert_eq!(counts.iter().count(), 4 * (at + 1));
            let hits = 1 + u64::from(at % 3 == 0);
            assert_eq!(counts.hits(&within[at], Kind::Exit), Some(hits));
            assert_eq!(counts.hits(&across[at], Kind::Entry), Some(hits));
            assert_eq!(listed(["in", "out"]).len(), 4 * (at + 1));
        }
    }
    let stats = finstrument::stats();
    assert_eq!(
        (stats.discovered, stats.patched, stats.split_calls),
        (4 * EACH, 4 * EACH, 2 * EACH),
        "{stats:?}"
    );
    assert_eq!((stats.beyond_capacity, stats.lost, stats.waiting), (0, 0, 0), "{stats:?}");
    let before = listed(["in", "out"]);
    assert!(before.iter().all(|(_, sites, state)| (*sites, *state) == (1, ProbeState::Active)));

    // All sites, however they came, and each once.
    let report = calls.pause();
    assert_eq!((report.patched(), report.unchanged(), report.refused()), (4 * EACH, 0, 0), "{report}");
    let total = calls.total();
    let call_all = || {
        for (library, names) in libraries.iter().zip([&within, &across]) {
            names.iter().for_each(|name| _ = library.function(name)(0));
        }
    };
    call_all();
    assert_eq!(calls.total(), total);
    let report = calls.resume();
    assert_eq!((report.patched(), report.unchanged(), report.refused()), (4 * EACH, 0, 0), "{report}");
    call_all();
    assert_eq!(calls.total(), total + 4 * EACH as u64);

    let unrelated = Library::open(&other);
    assert_eq!(listed(["in", "out"]), before);
    unrelated.close();
    // Now everything is looked at.
    assert_eq!(listed(["in", "out"]), before);
    let report = calls.pause();
    assert_eq!((report.patched(), report.unchanged(), report.refused()), (4 * EACH, 0, 0), "{report}");
    let _ = calls.resume();

    // A forked child continues where its parent was.
    let fresh = Library::open(&other);
    assert_eq!(fresh.function("unrelated000")(1), 2);
    let exit = in_a_child(|| {
        call_all();
        assert_eq!(fresh.function("unrelated001")(1), 3);
        let counts = calls.counts();
        assert_eq!(counts.hits("unrelated000", Kind::Entry), None, "there was no counter left");
        assert_eq!(counts.total(), total + 8 * EACH as u64);
        assert_eq!(select("unrelated*").unwrap().len(), 4);
    });
    assert_eq!(exit, 0);
    assert_eq!(finstrument::stats().beyond_capacity, 2);
    assert_eq!(select("unrelated*").unwrap().len(), 2);
    drop(calls);
    assert!(listed(["in", "out"]).iter().all(|(_, _, state)| *state == ProbeState::Latent));
}

/// A function that returns in two ways, each past a call of the exit hook.
const FORKED: &str = "\
\t.text
\t.globl forked
\t.type forked, @function
\t.p2align 4
forked:
\tpushq %rbx
\tmovq %rdi, %rbx
\tleaq forked(%rip), %rdi
\txorl %esi, %esi
\t.p2align 3
\tcall __cyg_profile_func_enter@PLT
\tleaq forked(%rip), %rdi
\txorl %esi, %esi
\ttestb $1, %bl
\tjne 1f
\t.p2align 3
\tcall __cyg_profile_func_exit@PLT
\tleaq 1(%rbx), %rax
\tpopq %rbx
\tret
1:\t.p2align 3
\tcall __cyg_profile_func_exit@PLT
\tleaq 2(%rbx), %rax
\tpopq %rbx
\tret
\t.size forked, . - forked
\t.section .note.GNU-stack,\"\",@progbits
";

fn forked(name: &str) -> Library {
    let code = FORKED.replace("forked(%rip)", ".Lforked(%rip)").replace("forked:\n", "forked:\n.Lforked:\n");
    load(name, "forked.s", &code, &[])
}

fn exits() -> usize {
    let listed = probes().into_iter().find(|it| it.path() == "forked" && it.kind() == Kind::Exit);
    listed.unwrap().sites()
}

fn later() {
    let library = forked("later");
    let function = library.function("forked");
    finstrument::start();
    assert_eq!(function(2), 3);
    let hits = select("forked").unwrap().attach(Count::new()).unwrap();
    assert_eq!((exits(), hits.report().patched(), hits.late_report().patched()), (1, 2, 0));
    assert_eq!(function(2), 3);
    assert_eq!(hits.total(), 2);
    // The exit's other call is nobody's yet.
    assert_eq!(function(3), 5);
    assert_eq!(hits.counts().hits("forked", Kind::Exit), Some(1));
    // The look that this took has made it the probe's.
    let late = hits.late_report();
    assert_eq!((late.patched(), late.unchanged(), late.refused()), (1, 1, 0), "{late}");
    assert_eq!(exits(), 2);
    assert_eq!(function(3), 5);
    assert_eq!(function(2), 3);
    let counts = hits.counts();
    assert_eq!((counts.hits("forked", Kind::Entry), counts.hits("forked", Kind::Exit)), (Some(4), Some(3)));
    assert_eq!(hits.detach().patched(), 3);
}

fn held() {
    let library = forked("held");
    let function = library.function("forked");
    let calls = finstrument::attach(Count::new(), 10).unwrap();
    assert_eq!(function(2), 3);
    let hold = select("forked").unwrap().hold().unwrap();
    // It is discovered active, and an operation later it is latent, as its probe is.
    assert_eq!(function(3), 5);
    assert_eq!(calls.total(), 3);
    finstrument::start();
    assert_eq!(function(3), 5);
    assert_eq!((calls.total(), exits()), (3, 2));
    assert_eq!(hold.release().patched(), 3);
    assert_eq!((function(2), function(3)), (3, 5));
    assert_eq!(calls.total(), 7);
}

fn open() {
    let names = names("open");
    let library = Library::open(&library("open", 0, &names));
    finstrument::start();
    // Some are no sites yet.
    names.iter().for_each(|name| _ = library.function(name)(0));
    let waiting = finstrument::stats().waiting;
    let hits = select("open*").unwrap().text_policy(TextPolicy::Open).attach(Count::new()).unwrap();
    assert_eq!((hits.report().patched(), hits.report().refused()), (2 * EACH, 0), "{waiting} waited");
    let mut rounds = 0;
    for name in &names {
        assert_eq!(hits.pause().patched(), 2 * EACH);
        library.function(name)(0);
        assert_eq!(hits.resume().patched(), 2 * EACH);
        library.function(name)(0);
        rounds += 1;
    }
    assert_eq!(hits.total(), 2 * rounds);
}

/// Entries and exits are discovered in different operations. A later call of a function is whole.
fn any() {
    const LEN: u64 = EACH as u64;
    let names = names("any");
    let library = Library::open(&library("any", 0, &names));
    let (early, late) = names.split_at(EACH / 2);
    let call = |names: &[String]| names.iter().for_each(|name| _ = library.function(name)(1));
    call(early);
    let latency = finstrument::attach(Latency::new(), 4 * EACH).unwrap();
    let tree = finstrument::attach(CallTree::new(), 4 * EACH).unwrap();
    let one = select_persistent("any399").unwrap().attach(Count::new()).unwrap();
    assert_eq!((latency.probes().len(), one.probes().len()), (EACH, 0));
    call(&names);
    discover_probes();
    assert_eq!((latency.probes().len(), one.probes().len(), one.total()), (2 * EACH, 2, 0));
    call(&names);
    call(late);
    let measured = latency.latencies();
    let calls = |name: &String| measured.function(name).map_or(0, FunctionLatency::calls);
    assert_eq!(early.iter().map(calls).collect::<Vec<_>>(), [2; EACH / 2]);
    assert_eq!(late.iter().map(calls).collect::<Vec<_>>(), [2; EACH / 2]);
    assert_eq!((one.total(), one.left_out_later(), latency.left_out_later()), (4, None, None));
    assert!(tree.tree().to_csv().contains("any399"));
    // Probes without room stay out, and are counted.
    let small = finstrument::attach(Latency::new(), 8).unwrap();
    let left_out = small.left_out_later().unwrap();
    assert!(
        left_out.starts_with(&format!("{} probes that appeared later are left out: ", 2 * LEN)),
        "{left_out}"
    );
    drop((small, latency, tree));
    call(&names);
    assert_eq!((one.total(), one.detach().patched()), (6, 2));
}

/// Returns the memory of this process, in KiB.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Functions join one by one. The last ones take no more memory than earlier ones.
fn memory() {
    let names: Vec<_> = (0..2000).map(|number| format!("memory{number:04}")).collect();
    let library = Library::open(&library("memory", 0, &names));
    let latency = finstrument::attach(Latency::new(), 2 * names.len()).unwrap();
    let mut grown = Vec::new();
    for some in names.chunks(500) {
        let before = resident();
        for name in some {
            library.function(name)(1);
            discover_probes();
        }
        grown.push(resident().saturating_sub(before));
    }
    assert_eq!((latency.probes().len(), latency.left_out_later()), (2 * names.len(), None));
    let latencies = latency.latencies();
    assert!(names.iter().all(|name| latencies.function(name).is_some()));
    println!("KiB for each 500 functions: {grown:?}");
    // Lists double now and then.
    assert!(grown[3] < 2 * grown[1] + 2048, "{grown:?}");
}

extern "C" fn look() -> u64 {
    discover_probes();
    1
}

/// The entry joins in the first call, and the exit after it.
fn whole() {
    let code = "#include <stdint.h>\nuint64_t whole(uint64_t (*inner)(void)) { return inner() + 1; }\n";
    let library = load("whole", "whole.c", code, &["-O1"]);
    // SAFETY: the function of the source above.
    let whole: extern "C" fn(extern "C" fn() -> u64) -> u64 =
        unsafe { std::mem::transmute(library.symbol("whole")) };
    let set = select_persistent("whole").unwrap();
    let latency = set.attach(Latency::new()).unwrap();
    let slow = set.attach_if(&"latency >= 0s".parse().unwrap(), Count::new()).unwrap();
    let entered = set.attach_if(&"thread > 0".parse().unwrap(), CallTree::new()).unwrap();
    let times = set.attach(Aggregate::new("latency").unwrap()).unwrap();
    let kinds = || latency.probes().iter().map(ProbeInfo::kind).collect::<Vec<_>>();
    let calls = |latency: &Attachment<Latency>| {
        latency.latencies().function("whole").map_or(0, FunctionLatency::calls)
    };
    assert_eq!((whole(look), kinds(), calls(&latency)), (2, vec![Kind::Entry, Kind::Exit], 0));
    assert!(latency.latencies().left_out().is_empty());
    for _ in 0..3 {
        assert_eq!(whole(look), 2);
    }
    assert_eq!((calls(&latency), slow.total()), (3, 3));
    assert_eq!(times.groups().iter().map(Group::count).sum::<u64>(), 3);
    assert!(entered.tree().to_csv().contains("whole"));
    let notes = [slow.to_string(), times.to_string(), entered.to_string()];
    assert!(notes.iter().all(|report| !report.contains("left out")), "{notes:?}");
}
