//! Calls that are found before they run: every consumer has each hit from the first one on, as the
//! code's own tally says.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_portable, probe_off))))]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use probe_runtime::{Consumer, Count, Event, Kind, ProbeSet, finstrument, probes, select, select_persistent};
use probe_tests::instrumented::{compilers, folder, shared, source};
use probe_tests::library::Library;

/// Functions that count their own calls: plain, with a loop through a table, with a function that
/// the compiler inlines, one that ends in a call of the exit hook alone, and one that is never
/// called.
const CODE: &str = "\
#include <stdint.h>
#ifndef LOCAL
#define LOCAL static
#endif
uint64_t tally[6];
LOCAL inline uint64_t half(uint64_t x) { tally[0]++; return x / 2; }
__attribute__((noinline)) uint64_t leaf(uint64_t x) { tally[1]++; return half(x) + half(x + 1); }
__attribute__((noinline)) void last(uint64_t *x) { tally[2]++; *x += 3; }
__attribute__((noinline)) uint64_t table(uint64_t x)
{
    uint64_t y = x;
    tally[3]++;
    switch (x % 8) {
    case 0: return leaf(x);
    case 1: y = leaf(x) * 3; break;
    case 2: last(&y); break;
    case 3: y += leaf(y) + leaf(y + 1); return y;
    case 4: y ^= 77; last(&y); break;
    case 5: y *= 5; return y + leaf(2);
    case 6: y -= leaf(3); break;
    default: y = 1; break;
    }
    return y + 1;
}
uint64_t never(uint64_t x) { tally[5]++; return x; }
uint64_t work(uint64_t x)
{
    uint64_t sum = 0;
    tally[4]++;
    for (uint64_t i = 0; i < x; i++) sum += table(i);
    return sum;
}
";

const NAMES: [&str; 6] = ["half", "leaf", "last", "table", "work", "never"];

/// Counts hits by its own means, as any program's consumer may.
#[derive(Clone, Default)]
struct Own(Arc<[AtomicU64; 12]>);

impl Own {
    fn place(path: &str, kind: Kind) -> Option<usize> {
        let name = NAMES.iter().position(|name| *name == path)?;
        Some(2 * name + usize::from(kind == Kind::Exit))
    }

    fn hits(&self) -> BTreeMap<(String, Kind), u64> {
        let hits = |name: &str, kind| self.0[Self::place(name, kind).unwrap()].load(Ordering::Relaxed);
        let all = NAMES.iter().flat_map(|name| [Kind::Entry, Kind::Exit].map(|kind| (*name, kind)));
        all.map(|(name, kind)| ((name.to_owned(), kind), hits(name, kind))).collect()
    }
}

impl Consumer for Own {
    fn hit(&self, event: &Event<'_>) {
        let place = Self::place(event.path(), event.kind()).unwrap();
        self.0[place].fetch_add(1, Ordering::Relaxed);
    }
}

/// Attaches `Count` and a consumer of the program's own, and has the library work.
fn is_exact(library: &Library, file: &str, how: &str) {
    let set = || -> ProbeSet { select(&format!("** @{file}")).unwrap() };
    let (own, counts) = (Own::default(), set().attach(Count::new()).unwrap());
    let attached = set().attach(own.clone()).unwrap();
    assert!(library.function("work")(50) > 0);
    drop(attached);
    // SAFETY: the library's array, which no thread writes now.
    let tally = unsafe { library.symbol("tally").cast::<[u64; 6]>().read() };
    let tally: BTreeMap<_, _> = NAMES.into_iter().zip(tally).collect();
    let expected: BTreeMap<_, _> = { NAMES }
        .iter()
        .flat_map(|name| [Kind::Entry, Kind::Exit].map(|kind| ((name.to_string(), kind), tally[name])))
        .collect();
    assert_eq!(own.hits(), expected, "{how}");
    let mut counted = BTreeMap::new();
    for it in counts.counts() {
        *counted.entry((it.probe.path().to_owned(), it.probe.kind())).or_insert(0) += it.hits;
    }
    assert_eq!(counted, expected, "{how}");
}

/// Assembly of a function whose calls of the hooks take their argument from the stack, so that it
/// is not known before they run.
const UNKNOWN: &str = "\
\t.text
\t.globl unknown
\t.type unknown, @function
unknown:
\tpushq %rbx
\tmovq %rdi, %rbx
\tleaq unknown(%rip), %rax
\tpushq %rax
\tpopq %rdi
\txorl %esi, %esi
\tcall __cyg_profile_func_enter@PLT
\tmovq %rbx, %rax
\tpopq %rbx
\tret
\t.size unknown, . - unknown
\t.section .note.GNU-stack,\"\",@progbits
";

#[test]
fn a_report_says_since_when_it_has_the_hits_of_what_was_found_by_a_hit() {
    finstrument::look_ahead();
    let source = source(
        &folder("late"),
        "late.s",
        &UNKNOWN.replace("unknown(%rip)", ".Lunknown(%rip)").replace("unknown:", "unknown:\n.Lunknown:"),
    );
    let object = source.with_extension("so");
    probe_tests::instrumented::build("gcc", &source, &object, &["-shared"]);
    let library = Library::open(&object);
    let counts = select_persistent("unknown").unwrap().attach(Count::new()).unwrap();
    let function = library.function("unknown");
    assert_eq!(function(1), 1);
    let said = counts.to_string();
    // It was hit, and nothing says that it was not.
    assert!(said.contains("\nunknown  entry") && !said.contains("never hit"), "{said}");
    let note = said.lines().find(|line| line.starts_with("hit before they could join")).unwrap();
    assert!(note.contains(": unknown entry since 0.") && note.ends_with(" s"), "{said}");
    assert_eq!((function(1), counts.total()), (1, 1));
}

/// A function in which two others are inlined, and left by one call.
const SHARING: &str = "\
\t.text
\t.globl both, one, two
\t.type both, @function
\t.type one, @function
\t.type two, @function
both:
\tpushq %rbx
\tmovq %rdi, %rbx
\ttestq $1, %rbx
\tjz 1f
\tleaq .Lone(%rip), %rdi
\tjmp 2f
1:\tleaq .Ltwo(%rip), %rdi
2:\tcall __cyg_profile_func_exit@PLT
\tmovq %rbx, %rax
\tpopq %rbx
\tret
\t.size both, . - both
one:
.Lone:
\tleaq .Lone(%rip), %rdi
\tjmp __cyg_profile_func_enter@PLT
\t.size one, . - one
two:
.Ltwo:
\tleaq .Ltwo(%rip), %rdi
\tjmp __cyg_profile_func_enter@PLT
\t.size two, . - two
\t.section .note.GNU-stack,\"\",@progbits
";

/// Nobody listens to some hits of a shared call, while others are counted.
#[test]
fn hits_pass_by_while_no_consumer_wants_them() {
    finstrument::look_ahead();
    let library = probe_tests::instrumented::load("sharing", "sharing.s", SHARING, &[]);
    let both = library.function("both");
    let attached = |name: &str| select(&format!("{name} kind=exit")).unwrap().attach(Count::new()).unwrap();
    for round in 1..4 {
        let calls = |one: u64, two: u64| {
            (0..one).for_each(|_| assert_eq!(both(1), 1));
            (0..two).for_each(|_| assert_eq!(both(2), 2));
        };
        let ones = attached("one");
        calls(3, 5);
        let twos = attached("two");
        calls(2, round);
        assert_eq!((ones.total(), twos.total()), (5, round));
        drop(ones);
        calls(4, 7);
        twos.pause();
        calls(1, 6);
        twos.resume();
        let ones = attached("one");
        calls(round, 2);
        assert_eq!((ones.total(), twos.total()), (round, round + 9));
    }
    library.close();
}

#[test]
fn each_hit_is_counted_from_the_first_one_on() {
    let folder = folder("ahead");
    finstrument::look_ahead();
    let forms: [(&str, &[&str]); 5] = [
        ("plt", &["-O2"]),
        ("no-plt", &["-O2", "-fno-plt"]),
        ("plain", &["-O0"]),
        ("o3", &["-O3", "-fcf-protection"]),
        // All names are exported.
        ("stripped", &["-O2", "-s", "-DLOCAL=", "-fgnu89-inline"]),
    ];
    for compiler in compilers() {
        for (form, flags) in forms {
            let how = format!("{compiler} {form}");
            let file = source(&folder, &format!("{compiler}-{form}.c"), CODE);
            let library = Library::open(&shared(compiler, &file, &format!("{compiler}-{form}.so"), flags));
            let shown = if form == "stripped" { file.with_extension("so") } else { file };
            let shown = shown.to_str().unwrap();
            is_exact(&library, shown, &how);
            let stats = finstrument::stats();
            assert_eq!((stats.lost, stats.waiting), (0, 0), "{how}");
            library.close();
            assert!(!probes().iter().any(|it| it.file() == shown), "{how}");
        }
    }
}
