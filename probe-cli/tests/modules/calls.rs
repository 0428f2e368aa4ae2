//! Calls that signals, forks, cancellations, jumps and exceptions interrupt.

use std::collections::BTreeMap;
use std::fs;

use probe_tests::c_library::{compile, makes};
use probe_tests::folder::Folder;
use probe_trace::{FieldValue, Item, Trace};

use crate::program::{build, counts_exactly, hits, ran, source, storm, tally, with_agent};

#[test]
fn handlers_and_forks_are_counted_exactly() {
    let folder = Folder::new("calls");
    let storm = storm(&folder);
    for what in ["storm", "signals", "forks"] {
        counts_exactly(&storm, &[what], &folder);
    }
}

/// Libraries with words of their own come and go, while all modules are on.
#[test]
fn calls_are_counted_exactly_while_libraries_come_and_go() {
    let folder = Folder::new("unloads");
    let plugin = build(&folder, "plugin.c", &["-shared", "-fPIC"], "plugin.so");
    counts_exactly(&storm(&folder), &["unloads", plugin.to_str().unwrap()], &folder);
}

/// All consumers that pair calls and read values, at once.
#[test]
fn consumers_of_each_kind_see_each_call() {
    let folder = Folder::new("consumers");
    let storm = storm(&folder);
    let probes = "lock::**, memory::**, io::** = latency, lock::**, memory::**, io::** = call-tree, \
                  memory::malloc=sum(size), io::read[ret == 32]=sum(ret) by(fd), io::write=count by(size), \
                  lock::mutex_lock=latency by(mutex)";
    for what in ["signals", "forks"] {
        let mut command = with_agent(&storm, probes);
        let ran = ran(command.arg(what).env("PROBES_OUT", folder.join("%n.csv")));
        let tally = tally(&ran.out);
        let of = |path: &str| tally[path][0];
        let cell = |number: usize, row: usize, at: usize| {
            let text = fs::read_to_string(folder.join(format!("{number}.csv"))).unwrap();
            text.lines().nth(row).unwrap().split(',').nth(at).unwrap().to_owned()
        };
        let rounds = of("memory::malloc") / 4;
        let size: u64 = 4 * (0..rounds).map(|round| 64 + round % 64).sum::<u64>();
        assert_eq!([cell(3, 1, 3), cell(3, 1, 4)], [of("memory::malloc").to_string(), size.to_string()]);
        assert_eq!(cell(4, 1, 5), (32 * of("io::read")).to_string());
        let by_size = fs::read_to_string(folder.join("5.csv")).unwrap();
        assert!(by_size.contains(&format!(",16,{}\n", of("io::read"))), "{by_size}");
        assert_eq!(cell(6, 1, 4), of("lock::mutex_lock").to_string());
        assert_eq!(
            ran.err
                .lines()
                .filter(|line| !line.contains("forked") && !line.contains("from inside a consumer"))
                .count(),
            0,
            "{ran:?}"
        );
    }
}

#[test]
fn cancelled_calls_unwind() {
    let folder = Folder::new("cancels");
    let storm = storm(&folder);
    for probes in ["lock::**=count", "lock::**=latency"] {
        let ran = ran(with_agent(&storm, probes).arg("cancels"));
        assert_eq!(ran.out, "cleaned up 50\n", "{ran:?}");
    }
}

#[test]
fn jumps_leave_calls() {
    let folder = Folder::new("jumps");
    let (storm, module) = (storm(&folder), folder.join("own.probes"));
    let text =
        "library libc.so.6\nown::sort = void qsort(pointer base, size count, size size, pointer compare)\n";
    fs::write(&module, text).unwrap();
    let report = folder.join("hits.csv");
    let mut command = with_agent(&storm, "own::sort=count");
    let ran = ran(command.arg("jumps").env("PROBES_MODULES", &module).env("PROBES_OUT", &report));
    assert_eq!(ran.out, "jumped 100\n", "{ran:?}");
    assert_eq!(hits(&report)["own::sort"], [100, 0]);
}

/// Arguments of all kinds reach the function, and exceptions its caller.
#[test]
fn arguments_results_and_exceptions_pass() {
    let folder = Folder::new("passes");
    let make = makes()[0];
    build(&folder, "own.c", &["-shared", "-fPIC", "-O1"], "libown.so");
    let (throws, program) = (folder.join("libthrows.so"), folder.join("passes"));
    compile(make.cpp, &["-shared", "-fPIC"], &[&source("throws.cpp")], &throws);
    let (object, own) = (folder.join("passes.o"), folder.join("libown.so"));
    compile(make.cpp, &["-O2", "-c"], &[&source("passes.cpp")], &object);
    compile(make.cpp, &[], &[&object, &own, &throws], &program);
    let module = source("own.probes");
    let probes = "own::mixed kind=exit=count by(ret), own::mixed=count by(a, b, d, q), own::sum=count by(ret, i, h), \
                  own::mixed=count by(c, e, f, g), own::risky=count";
    let mut command = with_agent(&program, probes);
    command.env("LD_LIBRARY_PATH", &*folder).env("PROBES_MODULES", &module);
    let ran = ran(command.env("PROBES_OUT", folder.join("%n.csv")));
    assert_eq!(ran.out, "6000.5 330 100\n", "{ran:?}");
    // Without the place of the text.
    let report = |number| {
        let text = fs::read_to_string(folder.join(format!("{number}.csv"))).unwrap();
        let row = text.lines().nth(1).unwrap().split(',');
        row.enumerate().filter(|(at, _)| !(1..3).contains(at)).map(|(_, it)| it).collect::<Vec<_>>().join(",")
    };
    assert_eq!(report(1), "own::mixed,6000.5,1");
    assert_eq!(report(2), "own::mixed,-7,2.5,1.5,5000,1");
    assert_eq!(report(3), "own::sum,330,14,8,1");
    assert_eq!(report(4), "own::mixed,99,-4,-3,hello,1");
    assert_eq!(hits(&folder.join("5.csv"))["own::risky"], [200, 100]);
}

/// The bytes of each function's blocks are those that the allocator tells the program itself.
#[test]
fn memory_is_that_of_the_innermost_function() {
    let folder = Folder::new("memory");
    let program = folder.join("allocator");
    let (compiler, module) = (makes()[0].c, folder.join("own.probes"));
    let library = build(&folder, "allocates.c", &["-shared", "-fPIC", "-O0"], "liballocates.so");
    compile(compiler, &["-O1"], &[&source("allocator.c"), &library], &program);
    let text = "library liballocates.so\nown::kept = pointer kept(size bytes)\nown::passing = void passing(size \
                bytes)\nown::moved = pointer moved(pointer block, size bytes)\n";
    fs::write(&module, text).unwrap();
    let mut command = with_agent(&program, "own::**=memory");
    command.env("LD_LIBRARY_PATH", &*folder).env("PROBES_MODULES", &module);
    let ran = ran(command.env("PROBES_OUT", folder.join("memory.csv")));
    let [kept, before, resized] = ran.out.split_whitespace().collect::<Vec<_>>()[..] else {
        panic!("{ran:?}")
    };
    let report = fs::read_to_string(folder.join("memory.csv")).unwrap();
    let row = |path: &str| {
        let line = report.lines().find(|line| line.starts_with(path)).unwrap_or_else(|| panic!("{report}"));
        line.split(',')
            .filter(|it| it.parse::<i64>().is_ok())
            .map(str::to_owned)
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(report.lines().count(), 5, "{report}");
    assert!(row("own::kept").contains(&format!("100 {kept} 0 0")), "{report}");
    assert!(row("own::moved").contains(&format!("10 {resized} 10 {before}")), "{report}");
    let passing = row("own::passing");
    assert!(passing.contains(" 100 ") && passing.ends_with(" 0"), "{report}");
}

/// A function of a library is called by the function around its wrapper.
#[test]
fn callers_are_those_of_the_functions() {
    let folder = Folder::new("callers");
    let program = folder.join("allocator");
    let library = build(&folder, "allocates.c", &["-shared", "-fPIC", "-O0"], "liballocates.so");
    compile(makes()[0].c, &["-O1"], &[&source("allocator.c"), &library], &program);
    let probes = "memory::malloc, memory::posix_memalign = count by(caller), memory::free kind=exit=count by(caller), \
                  memory::malloc=count by(stack)";
    let mut command = with_agent(&program, probes);
    command.env("LD_LIBRARY_PATH", &*folder).env("PROBES_OUT", folder.join("%n.csv"));
    ran(&mut command);
    let report = |number: usize| fs::read_to_string(folder.join(format!("{number}.csv"))).unwrap();
    let rows = |text: &str| {
        let rows =
            text.lines().skip(1).map(|line| line.split(',').rev().take(2).collect::<Vec<_>>().join(" "));
        let mut rows: Vec<_> = rows.collect();
        rows.sort();
        rows
    };
    assert_eq!(rows(&report(1)), ["1 main", "100 kept", "50 passing"], "{}", report(1));
    assert_eq!(rows(&report(2)), ["100 passing"], "{}", report(2));
    let stacks = report(3);
    assert!(stacks.contains("main;passing,50\n"), "{stacks}");

    let path = folder.join("calls.probetrace");
    let mut command = with_agent(&program, "memory::malloc=trace(caller)");
    command.env("LD_LIBRARY_PATH", &*folder).env("PROBES_OUT", &path);
    ran(&mut command);
    let mut callers = BTreeMap::new();
    for item in Trace::open(&[&path]).unwrap().items() {
        if let Item::Event(event) = item.unwrap()
            && let Some(stack @ FieldValue::Stack(_)) = event.fields.last()
        {
            *callers.entry(stack.to_string()).or_default() += 1;
        }
    }
    assert_eq!(callers, [("main".to_owned(), 1), ("passing".to_owned(), 50)].into());
}

/// C's library knows nothing of another allocator's blocks.
#[test]
fn allocators_that_tell_no_sizes_are_refused() {
    let folder = Folder::new("bump");
    let storm = storm(&folder);
    let bump = build(&folder, "bump.c", &["-shared", "-fPIC", "-O1"], "libbump.so");
    let mut command = with_agent(&storm, "io::**=memory");
    let agent = command.get_envs().find(|(name, _)| *name == "LD_PRELOAD").and_then(|(_, value)| value);
    let preloaded = format!("{}:{}", bump.display(), agent.unwrap_or_default().display());
    let ran = ran(command.arg("jumps").env("LD_PRELOAD", preloaded));
    assert_eq!(ran.out, "jumped 100\n", "{ran:?}");
    assert!(ran.err.contains("does not tell how many bytes a block has"), "{ran:?}");
}
