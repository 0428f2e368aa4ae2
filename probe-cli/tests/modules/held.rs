//! Locks of a program that nobody prepared: how often each is held, and by whom.

use std::collections::BTreeMap;
use std::fs;

use probe_tests::c_library::makes;
use probe_tests::folder::Folder;

use crate::program::{Served, build, ran, source, storm, with_agent};

/// The rows of a report, each by the names of its columns.
fn rows(report: &str) -> Vec<BTreeMap<String, String>> {
    let mut lines = report.lines().map(|line| line.split(','));
    let head: Vec<_> = lines.next().unwrap().map(str::to_owned).collect();
    lines.map(|line| head.iter().cloned().zip(line.map(str::to_owned)).collect()).collect()
}

/// The program's own lines, by function and lock: the locks that were given again, and those that
/// are held at the end.
type Tally = BTreeMap<(String, String), (u64, u64)>;

fn tally(out: &str) -> Tally {
    let line = |line: &str| {
        let [path, lock, holds, open] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        ((path.to_owned(), lock.to_owned()), (holds.parse().unwrap(), open.parse().unwrap()))
    };
    out.lines().map(line).collect()
}

/// Returns the same of a report by this key.
fn reported(report: &str, key: &str) -> Tally {
    let row = |row: &BTreeMap<String, String>| {
        let number = |name: &str| row[name].parse().unwrap();
        ((row["probe"].clone(), row[key].clone()), (number("count"), number("open")))
    };
    rows(report).iter().map(row).collect()
}

#[test]
fn each_lock_is_held_as_often_as_the_program_says() {
    let folder = Folder::new("held");
    let program = build(&folder, "locks.c", &["-O1", "-pthread"], "locks");
    let probes = "lock::*=held by(mutex), lock::*=held by(rwlock), lock::*=held by(spin), lock::*=held, \
                  lock::*=held by(mutex, caller, thread), lock::sem_wait=until(lock::sem_post) by(sem), \
                  lock::mutex_lock[ret == 0]=until(lock::mutex_unlock) by(mutex)";
    let mut command = with_agent(&program, probes);
    let ran = ran(command.env("PROBES_OUT", folder.join("%n.csv")));
    let expected = tally(&ran.out);
    let report = |number: u32| fs::read_to_string(folder.join(format!("{number}.csv"))).unwrap();
    let mut found = Tally::new();
    for (number, key) in [(1, "mutex"), (2, "rwlock"), (3, "spin"), (6, "sem")] {
        found.extend(reported(&report(number), key));
    }
    // The number of waits depends on the scheduler, so the tally does not have it.
    let turns = found.extract_if(.., |(path, _), _| path == "lock::cond_wait").collect::<Vec<_>>();
    assert_eq!(turns.len(), 1, "{turns:?}");
    // A robust mutex, whose owner ends.
    let robust = found.extract_if(.., |key, _| !expected.contains_key(key)).collect::<Vec<_>>();
    assert_eq!(robust.iter().map(|it| it.1).collect::<Vec<_>>(), [(1, 1)]);
    assert_eq!(found, expected);
    let all: u64 = rows(&report(4)).iter().map(|row| row["count"].parse::<u64>().unwrap()).sum();
    let mutexes = || rows(&report(5));
    let by_caller: u64 = mutexes().iter().map(|row| row["count"].parse::<u64>().unwrap()).sum();
    let of = |path: &str| expected.iter().filter(|it| it.0.0.starts_with(path)).map(|it| it.1.0).sum::<u64>();
    let semaphores = of("lock::sem");
    assert_eq!(all, expected.values().map(|it| it.0).sum::<u64>() - semaphores + turns[0].1.0 + 1);
    assert_eq!(by_caller, all - of("lock::read") - of("lock::write") - of("lock::spin"));
    let callers = ["each_kind", "fails", "ping", "ends_while_holding", "takes_and_jumps", "main"];
    let named = |row: &BTreeMap<String, String>| callers.contains(&row["caller"].as_str());
    assert!(mutexes().iter().all(named), "{}", report(5));
    // The same of two functions that a text names. `ret` is another one where an owner has ended.
    let plain = reported(&report(7), "mutex");
    let locked = |tally: &Tally| {
        tally
            .iter()
            .filter(|(key, _)| key.0 == "lock::mutex_lock")
            .map(|(key, it)| (key.clone(), *it))
            .collect()
    };
    let (mut expected, plain): (Tally, Tally) = (locked(&expected), plain);
    expected.insert(robust[0].0.clone(), (0, 1));
    assert_eq!(plain, expected);
}

/// Signals and forks interrupt the program meanwhile.
#[test]
fn each_lock_of_a_storm_is_held_exactly() {
    let folder = Folder::new("held-storm");
    let storm = storm(&folder);
    for what in ["storm", "signals", "forks"] {
        let mut command = with_agent(&storm, "lock::*=held by(mutex), lock::*=held by(caller)");
        let ran = ran(command.arg(what).env("PROBES_OUT", folder.join("%n.csv")));
        let locks = crate::program::tally(&ran.out)["lock::mutex_lock"][0];
        for (number, by_caller) in [(1, false), (2, true)] {
            let report = rows(&fs::read_to_string(folder.join(format!("{number}.csv"))).unwrap());
            let [row] = &report[..] else { panic!("{report:?}") };
            assert_eq!((&row["count"], &*row["open"]), (&locks.to_string(), "0"), "{what}");
            assert!(!by_caller || ["thread", "work"].contains(&&*row["caller"]), "{row:?}");
        }
    }
}

/// A predicate leaves out times, and takes no part in which end belongs to which beginning.
#[test]
fn a_predicate_leaves_nesting_alone() {
    let folder = Folder::new("recursive");
    let program = build(&folder, "recursive.c", &["-O1", "-pthread"], "recursive");
    let module = folder.join("own.probes");
    // The file has a name of its own in each of its functions.
    let text = "library libc.so.6 libc.so\nown::take = void flockfile(pointer m) takes m\n\
                own::give = void funlockfile(pointer it) gives it\n";
    fs::write(&module, text).unwrap();
    for (lock, module) in [("lock::mutex_*", "lock"), ("own::*", &*module.display().to_string())] {
        let probes = format!("{lock}[first 1]=held, {lock}[first 2]=held, {lock}[1 in 2]=held, {lock}=held");
        let mut command = with_agent(&program, &probes);
        command.env("PROBES_MODULES", module);
        let ran = ran(command.env("PROBES_OUT", folder.join("%n.csv")));
        let bounds: Vec<f64> = ran.out.split_whitespace().map(|it| it.parse().unwrap()).collect();
        let [inside, around] = bounds[..] else { panic!("{ran:?}") };
        for number in [1, 2, 4] {
            let report = rows(&fs::read_to_string(folder.join(format!("{number}.csv"))).unwrap());
            let [row] = &report[..] else { panic!("{report:?}") };
            let (count, time): (_, f64) = (&*row["count"], row["max_ns"].parse().unwrap());
            assert_eq!((count, &*row["open"]), ("1", "0"), "{row:?}");
            assert!((inside * 0.999..=around * 1.001).contains(&time), "{inside} {row:?} {around}");
        }
        // The inner one alone passes, which counts nowhere.
        assert_eq!(rows(&fs::read_to_string(folder.join("3.csv")).unwrap()), []);
    }
}

/// A line of an own module names the field that its function takes or gives.
#[test]
fn a_module_says_what_is_held() {
    let folder = Folder::new("own-held");
    let (compiler, module) = (makes()[0].c, folder.join("own.probes"));
    let library = build(&folder, "pool.c", &["-shared", "-fPIC", "-O1"], "libpool.so");
    let program = folder.join("uses_pool");
    probe_tests::c_library::compile(compiler, &["-O1"], &[&source("uses_pool.c"), &library], &program);
    let text = "library libpool.so\npool::get = pointer pool_get(pointer pool) takes ret if ret != 0\n\
                pool::put = void pool_put(pointer object) gives object\n";
    fs::write(&module, text).unwrap();
    let mut command =
        with_agent(&program, "pool::*=held by(pool), pool::get=until(pool::put by(object)) by(ret)");
    command.env("PROBES_MODULES", &module).env("LD_LIBRARY_PATH", &*folder);
    let ran = ran(command.env("PROBES_OUT", folder.join("%n.csv")));
    // Three objects of each of two pools are used a hundred times, and four calls get none.
    assert_eq!(ran.out, "600 4\n", "{ran:?}");
    let report = |number: u32| rows(&fs::read_to_string(folder.join(format!("{number}.csv"))).unwrap());
    let counts = |number: u32| {
        report(number).iter().map(|row| (row["count"].clone(), row["open"].clone())).collect::<Vec<_>>()
    };
    let own = |count: &str, open: &str| (count.to_owned(), open.to_owned());
    assert_eq!(counts(1), vec![own("300", "0"); 2]);
    // Without a condition, the null pointer is an object, too, which is never given back.
    assert_eq!(counts(2), [vec![own("100", "0"); 6], vec![own("0", "1")]].concat());
}

/// `probectl` shows who holds a lock while the program runs.
#[test]
fn a_running_program_tells_who_holds_a_lock() {
    let folder = Folder::new("holder");
    let storm = storm(&folder);
    let mut served = Served::start(&folder, &storm, &storm);
    served.probectl("enable", &["--keep", "lock::*=held by(caller)"]);
    assert_eq!(served.ask("w"), "done");
    assert_eq!(served.ask("h"), "done");
    let report = served.probectl("disable", &[]);
    let row = |caller: &str| {
        let of = |line: &&str| line.split_whitespace().take(2).eq(["lock::mutex_lock", caller]);
        report.lines().find(of).unwrap_or_else(|| panic!("{report}"))
    };
    assert_eq!(row("thread").split_whitespace().nth(2), Some("8000"), "{report}");
    // The main thread keeps one.
    assert_eq!(row("main").split_whitespace().nth(2), Some("0"), "{report}");
    assert!(row("main").ends_with(" by storm (1)") && !report.contains("note:"), "{report}");
    let shown = served.probectl("aggregate", &["held by(mutex)", "lock::*", "--for", "100ms"]);
    assert!(shown.contains("mutex"), "{shown}");
    served.end();
}
