//! A hit makes no system call, whatever clients have attached: threads hit that may make none but
//! the one that ends them. The kernel kills the program at any other.

use std::fs::File;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use probe_protocol::{Attach, Client};
use probe_runtime::probe;
use probe_tests::folder::Folder;
use probe_tests::sandbox;
use probe_trace::{Item, Trace};
use serde_json::Value;

use crate::target::Target;
use crate::work;

crate::target::serves!();

/// Calls of a thread after its first ones, with the numbers below `VALUES` in turn.
const CALLS: u64 = 100_000;
/// The first calls, all with 0: a consumer maps memory at a thread's first hit that gets to it.
const FIRST: u64 = 4;
const VALUES: u64 = NAMES.len() as u64;

/// The names of the numbers.
const NAMES: [&str; 8] = ["zero", "one", "two", "three", "four", "five", "six", "seven"];

/// Returns the number of this name.
#[probe(args(name))]
#[inline(never)]
fn named(name: &str) -> u64 {
    NAMES.iter().zip(0..).find(|it| *it.0 == name).map_or(VALUES, |it| it.1)
}

/// Plays the thread in the program: its first calls, and then `CALLS` without a system call, or
/// with one. Returns the number of wrong results.
pub(crate) fn hits_in_a_thread(calls_the_system: bool) -> u64 {
    /// Wrong results, and one more; 0 before the thread has called everything.
    static ANSWER: AtomicU64 = AtomicU64::new(0);
    ANSWER.store(0, Ordering::Relaxed);
    if calls_the_system {
        let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: a limit, which is read. The kernel leaves no memory dump behind.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_CORE, &raw const none) }, 0);
    }
    thread::spawn(move || {
        (0..FIRST).for_each(|_| _ = work(0));
        named(NAMES[3]);
        sandbox::allow_only_the_threads_end();
        let mut wrong = 0;
        for (call, name) in (0..CALLS).zip(NAMES.iter().cycle()) {
            let x = call % VALUES;
            wrong += u64::from(black_box(work(black_box(x))) != x * 3 + 1);
            wrong += u64::from(named(black_box(name)) != x);
        }
        if calls_the_system {
            // SAFETY: no pointers.
            unsafe { libc::getppid() };
        }
        ANSWER.store(wrong + 1, Ordering::Release);
        sandbox::end_thread()
    });
    loop {
        match ANSWER.load(Ordering::Acquire) {
            // Its end, if the kernel kills it, is that of this thread, too.
            0 => thread::sleep(Duration::from_millis(1)),
            answer => return answer - 1,
        }
    }
}

/// Lets a thread of the program make its hits.
#[track_caller]
fn play(target: &mut Target) {
    assert_eq!(target.number("strict"), 0, "wrong results");
}

/// The rows of a consumer's report.
fn rows(client: &mut Client, attachment: u32, consumer: u32) -> Vec<Value> {
    let text = client.report(attachment, consumer, "json").unwrap().text;
    let report: Value = serde_json::from_str(&text).unwrap();
    report["rows"].as_array().unwrap().clone()
}

/// A number of each row.
fn numbers(rows: &[Value], key: &str) -> Vec<u64> {
    rows.iter().map(|row| row[key].as_u64().unwrap_or_else(|| panic!("{key}: {row}"))).collect()
}

/// The filter is what this file says: a system call is the program's end.
#[test]
fn the_kernel_kills_the_program_at_a_system_call() {
    use std::os::unix::process::ExitStatusExt;

    let mut target = Target::new();
    target.tell("strict and one call");
    assert_eq!(target.wait().signal(), Some(libc::SIGSYS));
}

/// A consumer, and a check of the rows of its report.
type Checked = (String, fn(&[Value]));

/// All consumers, with predicates and aggregations of each form.
fn consumers() -> [Checked; 14] {
    const HITS: &str = "agent::work kind=entry";
    const NAMED: &str = "agent::strict::named kind=entry";
    const ALL: u64 = CALLS + FIRST;
    const OF_EACH: u64 = CALLS / VALUES;
    /// The calls with each value.
    fn by_value() -> Vec<(u64, u64)> {
        (0..VALUES).map(|value| (value, OF_EACH + if value == 0 { FIRST } else { 0 })).collect()
    }
    /// The key of each row, and its count, by the key.
    fn groups(rows: &[Value]) -> Vec<(u64, u64)> {
        let key = |row: &Value| row["keys"][0].as_str().unwrap().parse().unwrap();
        let mut groups: Vec<_> = rows.iter().map(|row| (key(row), row["count"].as_u64().unwrap())).collect();
        groups.sort_unstable();
        groups
    }
    [
        (format!("{HITS}=count"), |rows| assert_eq!(numbers(rows, "hits"), [ALL])),
        ("agent::work=latency".to_owned(), |rows| assert_eq!(numbers(rows, "calls"), [ALL])),
        (format!("{HITS}[x < 4]=count"), |rows| assert_eq!(numbers(rows, "hits"), [CALLS / 2 + FIRST])),
        (format!("{HITS}[first 100]=count"), |rows| assert_eq!(numbers(rows, "hits"), [100])),
        (format!("{HITS}[1 in 4]=count"), |rows| assert_eq!(numbers(rows, "hits"), [ALL / 4])),
        (format!("{NAMED}[name ~ \"thr*\"]=count"), |rows| {
            assert_eq!(numbers(rows, "hits"), [OF_EACH + 1]);
        }),
        (format!("{HITS}=count by(x)"), |rows| {
            assert_eq!(groups(rows), by_value());
        }),
        ("agent::work=latency by(x)".to_owned(), |rows| {
            assert_eq!(groups(rows), by_value());
        }),
        (format!("{HITS}=sum(x)"), |rows| {
            let sum = CALLS / VALUES * (VALUES * (VALUES - 1) / 2);
            assert_eq!((numbers(rows, "count"), numbers(rows, "sum")), (vec![ALL], vec![sum]));
        }),
        (format!("{HITS}=quantize(x)"), |rows| {
            let buckets = rows[0]["buckets"].as_array().unwrap();
            let ranges: Vec<_> = ["from", "to", "count"].map(|key| numbers(buckets, key)).into();
            let counts = [OF_EACH + FIRST, OF_EACH, 2 * OF_EACH, 4 * OF_EACH];
            assert_eq!(ranges, [[0, 1, 2, 4], [0, 1, 3, 7], counts]);
        }),
        (format!("{HITS}=until(agent::work kind=exit)"), |rows| {
            assert_eq!(numbers(rows, "count"), [ALL]);
        }),
        (format!("{NAMED}=count by(name)"), |rows| {
            let count = |name: &str| rows.iter().find(|row| row["keys"][0] == name).map(|it| &it["count"]);
            for (name, value) in NAMES.iter().zip(0..) {
                assert_eq!(count(name), Some(&(OF_EACH + u64::from(value == 3)).into()), "{name}");
            }
            assert_eq!(rows.len(), NAMES.len());
        }),
        (format!("{HITS}=count by(caller)"), |rows| {
            assert_eq!(numbers(rows, "count").iter().sum::<u64>(), ALL);
            let caller = |row: &Value| row["keys"][0].as_str().unwrap().contains("strict::hits_in_a_thread");
            assert!(rows.iter().all(caller), "{rows:?}");
        }),
        (format!("{HITS}=count by(stack)"), |rows| {
            assert_eq!(numbers(rows, "count").iter().sum::<u64>(), ALL);
            let stack = |row: &Value| {
                let stack = row["keys"][0].as_str().unwrap();
                stack.contains("strict::hits_in_a_thread") && !stack.contains("(unknown)")
            };
            assert!(rows.iter().all(stack), "{rows:?}");
        }),
    ]
}

/// Each consumer alone, as sites then may count or record by themselves, and all of them together.
#[test]
fn consumers_make_no_system_call() {
    let mut target = Target::new();
    let mut client = target.client();
    let consumers = consumers();
    for (spec, check) in &consumers {
        let id = client.attach(&Attach::new(spec)).unwrap().id;
        play(&mut target);
        check(&rows(&mut client, id, 0));
        client.detach(id).unwrap();
    }
    let specs: Vec<_> = consumers.iter().map(|(spec, _)| spec.as_str()).collect();
    let id = client.attach(&Attach::new(specs.join(", "))).unwrap().id;
    play(&mut target);
    for ((_, check), place) in consumers.iter().zip(0..) {
        check(&rows(&mut client, id, place));
    }
    client.detach(id).unwrap();
    target.is_as_before();
}

/// Rings that hold all of a thread's events: none is lost, at whatever speed they are written.
#[test]
fn a_trace_makes_no_system_call() {
    let mut target = Target::new();
    let mut client = target.client();
    let folder = Folder::new("strict");
    let path = folder.join("run.probetrace");
    let events = || {
        let mut trace = Trace::open(&[&path]).unwrap();
        assert_eq!(trace.problems(), [""; 0]);
        trace.items().filter(|it| matches!(it, Ok(Item::Event(_)))).count() as u64
    };
    // Entries, points of the even ones, exits.
    let all = 2 * CALLS + CALLS / 2 + 3 * FIRST;
    for others in [None, Some("agent::work=latency, agent::work kind=entry=count by(x)")] {
        let others = others.map(|spec| client.attach(&Attach::new(spec)).unwrap().id);
        let attach = Attach {
            output: Some("run.probetrace".to_owned()),
            ..Attach::new("agent::*=trace(ring=16M, size=64M)")
        };
        let attached = client.record(&attach, &File::create(&path).unwrap()).unwrap();
        play(&mut target);
        client.pause(attached.id).unwrap();
        let text = client.report(attached.id, 0, "txt").unwrap().text;
        let start = format!("{all} events of 1 thread, and 0 lost; ");
        assert!(text.starts_with(&start), "{text}");
        assert_eq!(client.detach(attached.id).unwrap(), [""; 0]);
        assert_eq!(events(), all);
        for more in ["", "stack, ", "caller, "] {
            let spec = format!("agent::*=trace(flight, {more}ring=16M, size=64M)");
            let recorder = client.attach(&Attach::new(spec)).unwrap().id;
            play(&mut target);
            client.snapshot(recorder, 0, "probetrace", &File::create(&path).unwrap()).unwrap();
            assert_eq!(events(), all);
            client.detach(recorder).unwrap();
        }
        if let Some(id) = others {
            client.detach(id).unwrap();
        }
    }
    target.is_as_before();
}

/// The kernel writes the records of switches, and the thread reads them in its own memory.
#[test]
fn waits_make_no_system_call() {
    let mut target = Target::new();
    let mut client = target.client();
    for spec in ["agent::work=latency(cpu)", "agent::work=call-tree(cpu)"] {
        let id = match client.attach(&Attach::new(spec)) {
            Ok(attached) => attached.id,
            Err(error) => return eprintln!("the system does not permit it: {error}"),
        };
        play(&mut target);
        let rows = rows(&mut client, id, 0);
        assert_eq!(numbers(&rows, "calls"), [CALLS + FIRST]);
        let parts = ["cpu_ns", "blocked_ns", "ready_ns", "unknown_ns"].map(|key| numbers(&rows, key)[0]);
        let total = numbers(&rows, "total_ns")[0];
        assert!(parts.iter().sum::<u64>().abs_diff(total) <= 1, "{parts:?} {total}");
        client.detach(id).unwrap();
    }
    let folder = Folder::new("strict-waits");
    let path = folder.join("run.probetrace");
    let spec = "agent::*=trace(flight, threads, ring=16M, size=64M)";
    let recorder = client.attach(&Attach::new(spec)).unwrap().id;
    play(&mut target);
    client.snapshot(recorder, 0, "probetrace", &File::create(&path).unwrap()).unwrap();
    let mut trace = Trace::open(&[&path]).unwrap();
    let items: Vec<_> = trace.items().map(Result::unwrap).collect();
    let events = items.iter().filter(|it| matches!(it, Item::Event(_))).count() as u64;
    assert_eq!(events, 2 * CALLS + CALLS / 2 + 3 * FIRST);
    client.detach(recorder).unwrap();
    target.is_as_before();
}
