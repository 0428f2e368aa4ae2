//! Functions that end in a jump to the exit hook, as compilers make them: a site each, whatever the
//! flags, the text policy and what becomes of the object and the process; exact counts, bytes and
//! code.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_portable, probe_off))))]

use std::collections::BTreeMap;
use std::path::PathBuf;

use iced_x86::{Decoder, DecoderOptions, Mnemonic};
use probe_runtime::patch::TextPolicy;
use probe_runtime::{Count, Kind, Latency, Trace, Tracing, finstrument, probes, select};
use probe_tests::instrumented::{compilers, folder, shared, source};
use probe_tests::library::Library;
use probe_tests::scenario;
use probe_trace::calls::{Calls, Ending, Step};

/// Functions of one void kind and another; each has one exit that is the last thing it does, or
/// several.
const CODE: &str = "\
#include <stdint.h>
#define PLAIN __attribute__((no_instrument_function))
static volatile uint64_t sum;
__attribute__((noinline)) static void work(uint64_t x) { sum += x; }
__attribute__((noinline)) void shown(uint64_t x) { sum += x; }
__attribute__((noinline)) static void several(uint64_t x)
{
    if (x == 0) return;
    if (x & 1) { sum += 1; work(x); sum += x; return; }
    sum += 3; shown(x); sum ^= 5; sum ^= 5;
}
static inline void inner(uint64_t x) { sum += 2 * x; work(1); sum += 0; }
__attribute__((noinline)) static void outer(uint64_t x) { inner(x); sum += 7; }
PLAIN __attribute__((noinline)) static void bare(uint64_t x) { if (x & 1) inner(x); else shown(x); }
PLAIN uint64_t run(uint64_t n)
{
    sum = 0;
    for (uint64_t i = 0; i < n; i++) { several(i); outer(i); bare(i); }
    return sum;
}
PLAIN uint64_t at(uint64_t which)
{
    return (uint64_t)(which == 0 ? work : which == 1 ? shown : which == 2 ? several : outer);
}
";

/// How often each is called by `run(n)`.
fn calls_of(n: u64) -> Vec<(&'static str, u64)> {
    let odd = n / 2;
    let even = n - odd;
    // `several` calls `work` for odd numbers, and `shown` for even ones but 0; `bare` does the same
    // by way of `inner`.
    vec![
        ("work", odd + n + odd),
        ("shown", even - 1 + even),
        ("several", n),
        ("inner", n + odd),
        ("outer", n),
    ]
}

/// The same sum by other means.
fn sum_of(n: u64) -> u64 {
    let mut sum: u64 = 0;
    for i in 0..n {
        sum += match i {
            0 => 0,
            i if i % 2 == 1 => 1 + 2 * i,
            i => 3 + i,
        };
        sum += 2 * i + 1 + 7;
        sum += if i % 2 == 1 { 2 * i + 1 } else { i };
    }
    sum
}

#[test]
fn whatever_the_flags() {
    scenario::runs_in_a_child("scenario", "flags");
}

#[test]
fn whatever_the_text_policy() {
    scenario::runs_in_a_child("scenario", "policies");
}

#[test]
fn each_call_is_paired_in_programs_and_in_traces() {
    scenario::runs_in_a_child("scenario", "paired");
}

#[test]
fn unloaded_and_loaded_again() {
    scenario::runs_in_a_child("scenario", "reload");
}

#[test]
fn in_a_forked_child() {
    scenario::runs_in_a_child("scenario", "fork");
}

#[test]
#[ignore = "other tests play it, in children"]
fn scenario() {
    let asked = scenario::to_play();
    match asked.as_str() {
        "flags" => flags(),
        "policies" => policies(),
        "paired" => paired(),
        "reload" => reload(),
        "fork" => fork(),
        other => panic!("no scenario {other}"),
    }
    println!("done: {asked}");
}

/// The instructions of a function, up to its size in the symbol table of the object.
fn code(library: &Library, which: u64) -> Vec<u8> {
    let at = usize::try_from(library.function("at")(which)).unwrap();
    // SAFETY: code of the library; a page behind it is its own, too.
    unsafe { std::slice::from_raw_parts(at as *const u8, 160) }.to_vec()
}

fn assert_counted(calls: &finstrument::DiscoveryAttachment, times: u64, n: u64, said: &str) {
    for (path, hits) in calls_of(n) {
        for kind in [Kind::Entry, Kind::Exit] {
            assert_eq!(calls.counts().hits(path, kind), Some(times * hits), "{path} {kind}: {said}");
        }
    }
}

fn flags() {
    let folder = folder("tails-flags");
    let all: &[&[&str]] = &[
        &["-O2"],
        &["-O3"],
        &["-Os"],
        &["-O2", "-fno-plt"],
        &["-O2", "-fcf-protection=full"],
        &["-O2", "-fno-plt", "-fcf-protection=full"],
        &["-O2", "-fno-omit-frame-pointer"],
        &["-O2", "-Wl,-z,now"],
        &["-O2", "-Wl,-Bsymbolic"],
        &["-O2", "-fvisibility=protected"],
        &["-O2", "-g0"],
    ];
    for compiler in compilers() {
        for (number, flags) in all.iter().enumerate() {
            let file = source(&folder, &format!("{compiler}-{number}.c"), CODE);
            let library = Library::open(&shared(compiler, &file, &format!("{compiler}-{number}.so"), flags));
            let run = library.function("run");
            let before = finstrument::stats();
            // Latent from the first look on.
            assert_eq!(run(10), sum_of(10));
            let original: Vec<_> = (0..4).map(|which| code(&library, which)).collect();
            finstrument::start();
            finstrument::start();
            let stats = finstrument::stats();
            let said = format!("{compiler} {flags:?} {stats:?} {:?}", finstrument::unpatched());
            assert_eq!(finstrument::unpatched(), [], "{said}");
            assert_eq!(stats.waiting, 0, "{said}");
            assert!(stats.tail_jumps - before.tail_jumps >= 3, "{said}");
            assert_eq!(run(10), sum_of(10));
            let calls = finstrument::attach(Count::new(), 100).unwrap();
            for _ in 0..3 {
                assert_eq!(run(10), sum_of(10));
            }
            assert_counted(&calls, 3, 10, &said);
            assert_eq!(calls.pause().refused(), 0, "{said}");
            assert_eq!(run(7), sum_of(7));
            assert_counted(&calls, 3, 10, &said);
            let resumed = calls.resume();
            assert_eq!(resumed.refused(), 0, "{said}");
            let sites: usize = probes().iter().map(probe_runtime::ProbeInfo::sites).sum();
            assert_eq!(resumed.patched(), sites, "{said}");
            // Where a call was a real one, it is one again: jumps are the compiler's bytes.
            for (which, original) in (0..4).zip(&original) {
                for at in jumps(original, true) {
                    assert_eq!(code(&library, which)[at], original[at], "{said}");
                }
            }
            assert_eq!(run(10), sum_of(10));
            assert_counted(&calls, 4, 10, &said);
            drop(calls);
            let latent: Vec<_> = (0..4).map(|which| code(&library, which)).collect();
            let rets: usize = latent
                .iter()
                .zip(&original)
                .map(|(latent, original)| {
                    jumps(original, true).iter().filter(|at| latent[**at] == 0xc3).count()
                })
                .sum();
            assert!(rets >= 3, "{said}");
            assert_eq!(run(10), sum_of(10));
            library.close();
            assert_eq!(probes(), []);
        }
    }
}

fn paired() {
    let folder = folder("tails-paired");
    for compiler in compilers() {
        for level in ["-O0", "-O1", "-O2", "-O3"] {
            let said = format!("{compiler} {level}");
            let file = source(&folder, &format!("{compiler}{level}.c"), CODE);
            let library = Library::open(&shared(compiler, &file, &format!("{compiler}{level}.so"), &[level]));
            let run = library.function("run");
            assert_eq!(run(10), sum_of(10));
            finstrument::start();
            finstrument::start();
            let path = folder.join("hits.probetrace");
            let latency = select("**").unwrap().attach(Latency::new()).unwrap();
            let trace = select("**").unwrap().attach(Trace::to_file(&path)).unwrap();
            let tracing = select("**").unwrap().attach(Tracing::new()).unwrap();
            assert_eq!(run(10), sum_of(10));
            assert_eq!(trace.finish().unwrap().lost, 0);
            // Nobody subscribes to the spans.
            let calls = calls_of(10).iter().map(|(_, calls)| calls).sum::<u64>();
            let totals = tracing.totals();
            assert_eq!((totals.disabled, totals.unpaired), (calls, 0), "{said}: {totals:?}");
            drop(tracing);
            let mut traced = BTreeMap::<String, [u64; 2]>::new();
            for step in Calls::new(probe_trace::Trace::open(&[&path]).unwrap().items()) {
                let (definition, is_whole) = match step.unwrap() {
                    Step::End(end) => (end.definition, end.ending == Ending::Exit),
                    Step::Instant(instant) => (instant.fields.definition().clone(), false),
                    _ => continue,
                };
                traced.entry(definition.path.clone()).or_default()[usize::from(!is_whole)] += 1;
            }
            for (name, calls) in calls_of(10) {
                assert_eq!(traced.remove(name), Some([calls, 0]), "{name}, {said}");
            }
            assert_eq!(traced, BTreeMap::new(), "{said}");
            let of = |latencies: &probe_runtime::latency::Latencies| -> BTreeMap<String, [u64; 2]> {
                { latencies.iter() }
                    .map(|it| (it.path().to_owned(), [it.calls(), it.unpaired().total()]))
                    .collect()
            };
            let expected = calls_of(10).into_iter().map(|(name, calls)| (name.to_owned(), [calls, 0]));
            assert_eq!(of(&latency.latencies()), expected.collect(), "{said}");
            drop(latency);
            library.close();
            assert_eq!(probes(), []);
        }
    }
}

/// Returns the offsets of the jumps that leave a function, by memory or not.
fn jumps(code: &[u8], is_far: bool) -> Vec<usize> {
    let mut decoder = Decoder::with_ip(64, code, 0x1000, DecoderOptions::NONE);
    let mut found = Vec::new();
    while decoder.can_decode() {
        let instruction = decoder.decode();
        let leaves = instruction.is_ip_rel_memory_operand()
            || !(0x1000..0x1000 + code.len() as u64).contains(&instruction.near_branch_target());
        if instruction.mnemonic() == Mnemonic::Jmp && leaves == is_far {
            found.push(usize::try_from(instruction.ip()).unwrap() - 0x1000);
        }
    }
    found
}

fn policies() {
    let folder = folder("tails-policies");
    for (number, policy) in [TextPolicy::Sealed, TextPolicy::Open, TextPolicy::Alias].into_iter().enumerate()
    {
        finstrument::text_policy(policy);
        let file = source(&folder, &format!("{number}.c"), CODE);
        let library = Library::open(&shared("gcc", &file, &format!("{number}.so"), &["-O2"]));
        let run = library.function("run");
        let calls = finstrument::attach(Count::new(), 100).unwrap();
        assert_eq!(run(10), sum_of(10));
        finstrument::start();
        finstrument::start();
        let tails = finstrument::stats().tail_jumps;
        assert_eq!(tails, 5 * (number + 1), "{:?}", finstrument::unpatched());
        assert_eq!(run(10), sum_of(10));
        assert_counted(&calls, 2, 10, "counted");
        drop(calls);
        for of in [TextPolicy::Sealed, TextPolicy::Open, TextPolicy::Alias] {
            let exits = select("kind(exit)").unwrap_or_else(|_| select("**").unwrap());
            let hits = exits.text_policy(of).attach(Count::new()).unwrap();
            assert_eq!(run(10), sum_of(10));
            let expected: u64 = calls_of(10).iter().map(|(_, hits)| *hits).sum();
            if hits.report().is_complete() {
                let exits: u64 =
                    (hits.counts().iter()).filter(|it| it.probe.kind() == Kind::Exit).map(|it| it.hits).sum();
                assert_eq!(exits, expected, "{policy:?} {of:?}");
            }
        }
        let latent = finstrument::stats();
        assert_eq!(run(10), sum_of(10));
        assert_eq!(finstrument::stats(), latent);
        library.close();
    }
}

fn object(name: &str) -> PathBuf {
    let folder = folder(name);
    shared("gcc", &source(&folder, "code.c", CODE), "code.so", &["-O2"])
}

fn reload() {
    let path = object("tails-reload");
    let calls = finstrument::attach(Count::new(), 200).unwrap();
    for round in 1..6 {
        let library = Library::open(&path);
        let run = library.function("run");
        assert_eq!(run(10), sum_of(10));
        probes();
        assert_eq!(run(10), sum_of(10));
        assert_counted(&calls, 2 * round, 10, "active");
        library.close();
        if round % 2 == 0 {
            probes();
        }
    }
    drop(calls);
    for _ in 1..6 {
        let library = Library::open(&path);
        let run = library.function("run");
        let original: Vec<_> = (0..4).map(|which| code(&library, which)).collect();
        assert_eq!(run(10), sum_of(10));
        probes();
        assert_eq!(run(10), sum_of(10));
        let latent: Vec<_> = (0..4).map(|which| code(&library, which)).collect();
        for (latent, original) in latent.iter().zip(&original) {
            let jump = jumps(original, true)[0];
            assert_eq!((original[jump], latent[jump]), (0xe9, 0xc3));
        }
        library.close();
    }
    assert_eq!(probes(), []);
}

fn fork() {
    let library = Library::open(&object("tails-fork"));
    let run = library.function("run");
    let calls = finstrument::attach(Count::new(), 100).unwrap();
    assert_eq!(run(10), sum_of(10));
    probes();
    let in_the_child = scenario::in_a_child(|| {
        assert_eq!(run(10), sum_of(10));
        assert_counted(&calls, 2, 10, "the child");
        assert_eq!(calls.pause().refused(), 0);
        assert_eq!(run(10), sum_of(10));
        assert_counted(&calls, 2, 10, "the child");
        let latent = code(&library, 0);
        assert!(latent.contains(&0xc3));
    });
    assert_eq!(in_the_child, 0);
    let jump = jumps(&code(&library, 0), true)[0];
    assert_eq!(code(&library, 0)[jump], 0xe9, "the parent's is active");
    assert_eq!(run(10), sum_of(10));
    assert_counted(&calls, 2, 10, "the parent");
    drop(calls);
    assert_eq!(code(&library, 0)[jump], 0xc3);
    library.close();
}
