//! Times off the processor: as many as the kernel counts for the thread, each where the thread was,
//! and none of them overlaps another.

use std::fs;
use std::io::Read as _;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI32, Ordering};
use std::{io, thread};

use probe_runtime::{Attachment, Trace, point, probe, select};
use probe_tests::folder::Folder;
use probe_tests::instrumented;
use probe_tests::perfetto;
use probe_tests::turn::turn;
use probe_trace::calls::{Calls, Step};
use probe_trace::{Item, Off, Trace as Read};

/// Waits of the reading thread.
const ROUNDS: usize = 20;

const PATHS: &str = "trace::threads::*";

/// Reads one byte by the system call itself, so that nothing else waits.
#[probe]
#[inline(never)]
fn receive(pipe: i32) {
    let mut byte = 0_u8;
    // SAFETY: a place for one byte.
    assert_eq!(unsafe { libc::read(pipe, (&raw mut byte).cast(), 1) }, 1);
}

/// How often the kernel has taken this thread off a processor: because it was blocked, and because
/// others had their turn.
fn switches() -> [usize; 2] {
    // SAFETY: all fields are numbers, and the kernel is given a place for them.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage), 0);
        usage
    };
    [usage.ru_nvcsw, usage.ru_nivcsw].map(|it| usize::try_from(it).unwrap())
}

/// Returns once a thread is blocked.
fn until_blocked(thread: &AtomicI32) {
    loop {
        let tid = thread.load(Ordering::SeqCst);
        let state = fs::read_to_string(format!("/proc/self/task/{tid}/stat")).unwrap_or_default();
        if tid != 0 && state.rsplit(") ").next().is_some_and(|rest| rest.starts_with('S')) {
            return;
        }
        thread::yield_now();
    }
}

/// Returns once a thread is blocked in `read`, and not on its way there.
fn until_in_read(thread: &AtomicI32) {
    let read = format!("{} ", libc::SYS_read);
    loop {
        until_blocked(thread);
        let tid = thread.load(Ordering::SeqCst);
        if fs::read_to_string(format!("/proc/self/task/{tid}/syscall")).is_ok_and(|it| it.starts_with(&read))
        {
            return;
        }
    }
}

/// Returns once the kernel knows no such thread any more.
fn until_gone(thread: u64) {
    while fs::exists(format!("/proc/self/task/{thread}")).unwrap() {
        thread::yield_now();
    }
}

/// The kernel's counts between the hits `begin` and `end`, at least and at most.
struct Counted {
    least: [usize; 2],
    most: [usize; 2],
}

/// Lets a thread wait for [`ROUNDS`] bytes, each after the last one was taken.
fn exchange(receive: impl Fn(i32) + Sync) -> Counted {
    let (reader, writer) = io::pipe().unwrap();
    let waiting = AtomicI32::new(0);
    thread::scope(|scope| {
        let receiver = scope.spawn(|| {
            let outer = switches();
            point!("begin");
            let inner = switches();
            // SAFETY: returns a number.
            waiting.store(unsafe { libc::gettid() }, Ordering::SeqCst);
            (0..ROUNDS).for_each(|_| receive(reader.as_raw_fd()));
            let inner_end = switches();
            point!("end");
            let outer_end = switches();
            let grown = |end: [usize; 2], begin: [usize; 2]| [end[0] - begin[0], end[1] - begin[1]];
            Counted { least: grown(inner_end, inner), most: grown(outer_end, outer) }
        });
        for _ in 0..ROUNDS {
            until_blocked(&waiting);
            io::Write::write_all(&mut &writer, &[1]).unwrap();
            // The byte was taken, or will be: the next one must not come while it is there.
            while readable(reader.as_raw_fd()) {
                thread::yield_now();
            }
        }
        receiver.join().unwrap()
    })
}

fn readable(pipe: i32) -> bool {
    let mut bytes = 0;
    // SAFETY: a place for the number.
    assert_eq!(unsafe { libc::ioctl(pipe, libc::FIONREAD, &raw mut bytes) }, 0);
    bytes != 0
}

/// Attaches; `None` if the system does not permit it.
fn attach(paths: &str, trace: Trace) -> Option<Attachment<Trace>> {
    let attached = select(paths).unwrap().attach(trace.threads());
    attached.inspect_err(|error| eprintln!("not permitted: {error}")).ok()
}

/// Functions that the traces leave out.
mod elsewhere {
    #[probe_runtime::probe]
    #[inline(never)]
    pub(super) fn later() {}
}

/// Returns the times off the processor between the hits `begin` and `end` of their thread; checks
/// that all are in order.
fn between(path: &Path) -> Vec<Off> {
    let items = super::items(path);
    let at = |name: &str| {
        let is_it =
            |item: &&Item| matches!(item, Item::Event(event) if event.definition.path.ends_with(name));
        let Some(Item::Event(event)) = items.iter().find(is_it) else { panic!("{name} was hit") };
        (event.thread, event.time)
    };
    let ((thread, begin), (_, end)) = (at("::begin"), at("::end"));
    let mut last = 0;
    for item in &items {
        let (from, until) = match item {
            Item::Event(event) if event.thread == thread => (event.time, event.time),
            Item::Off(off) if off.thread == thread => (off.begin, off.end.unwrap_or(off.begin)),
            Item::OffLost(_) => panic!("there are few"),
            _ => continue,
        };
        assert!(last <= from && from <= until, "{item:?} after {last}");
        last = until;
    }
    let off = items.into_iter().filter_map(|item| if let Item::Off(off) = item { Some(off) } else { None });
    off.filter(|off| off.thread == thread && off.begin >= begin && off.end.is_some_and(|at| at <= end))
        .collect()
}

/// Compares the times with the kernel's counts.
fn compare(off: &[Off], counted: &Counted) {
    let blocked = off.iter().filter(|it| !it.is_ready).count();
    for (kind, found) in [blocked, off.len() - blocked].into_iter().enumerate() {
        let (least, most) = (counted.least[kind], counted.most[kind]);
        assert!((least..=most).contains(&found), "{found} not in {least}..={most}: {off:#?}");
    }
    assert!(counted.least[0] >= ROUNDS);
}

/// The paths of the calls that were blocked.
fn blocked_in(path: &Path) -> Vec<String> {
    let mut trace = Read::open(&[path]).unwrap();
    let steps = Calls::new(trace.items()).map(Result::unwrap);
    let paths = steps.filter_map(|step| match step {
        Step::Off(off) if !off.off.is_ready => off.inside.as_ref().map(|probe| probe.path.clone()),
        _ => None,
    });
    paths.collect()
}

fn file(folder: &Folder, name: &str) -> PathBuf {
    folder.join(name)
}

#[test]
fn a_thread_waits_as_often_as_the_kernel_says() {
    let _turn = turn();
    let folder = Folder::new("trace-off");
    let file = file(&folder, "off.probetrace");
    let Some(trace) = attach(PATHS, Trace::to_file(&file)) else { return };
    let counted = exchange(receive);
    trace.finish().unwrap();
    compare(&between(&file), &counted);
    let calls = blocked_in(&file);
    assert!(calls.iter().filter(|path| *path == "trace::threads::receive").count() >= ROUNDS, "{calls:?}");
}

/// The smallest rings have room for few times, and keep the last ones.
#[test]
fn snapshots_have_the_times_of_the_last_hits() {
    let _turn = turn();
    let folder = Folder::new("trace-off-flight");
    for ring in [4096, 1 << 20] {
        let file = file(&folder, "flight.probetrace");
        let trace = Trace::recorder().ring_size(ring).total_size(8 * ring);
        let Some(trace) = attach(PATHS, trace) else { return };
        let counted = exchange(receive);
        trace.snapshot(&file).unwrap();
        let off = super::items(&file).into_iter().filter(|item| matches!(item, Item::Off(_))).count();
        assert!(off > 0);
        if ring > 4096 {
            compare(&between(&file), &counted);
        }
    }
}

/// A call of a function with hooks waits as one of Rust does.
#[cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_portable, probe_off))))]
#[test]
fn functions_with_hooks_wait() {
    const SOURCE: &str = "#include <stdint.h>\n#include <unistd.h>\n\
        uint64_t hooked_receive(uint64_t pipe) { char byte; return read(pipe, &byte, 1); }\n";
    let _turn = turn();
    let library = instrumented::load("trace-off-hooks", "code.c", SOURCE, &["-O1"]);
    let receive = library.function("hooked_receive");
    let call = |pipe: i32| assert_eq!(receive(u64::try_from(pipe).unwrap()), 1);
    // The first hit makes it a probe.
    let (mut reader, writer) = io::pipe().unwrap();
    io::Write::write_all(&mut &writer, &[1]).unwrap();
    call(reader.as_raw_fd());
    drop(writer);
    assert_eq!(reader.read(&mut [0]).unwrap(), 0);
    let folder = Folder::new("trace-off-hooks-file");
    let file = file(&folder, "hooks.probetrace");
    let Some(trace) = attach("**::hooked_receive, trace::threads::*", Trace::to_file(&file)) else { return };
    let counted = exchange(call);
    trace.finish().unwrap();
    compare(&between(&file), &counted);
    let calls = blocked_in(&file);
    assert!(calls.iter().filter(|path| path.ends_with("hooked_receive")).count() >= ROUNDS, "{calls:?}");
}

/// A wait that somebody sees while it lasts has its system call, also once it is over.
#[test]
fn a_long_wait_has_its_system_call() {
    let _turn = turn();
    let folder = Folder::new("trace-off-call");
    let file = file(&folder, "call.probetrace");
    let Some(trace) = attach(PATHS, Trace::to_file(&file)) else { return };
    let (reader, writer) = io::pipe().unwrap();
    let waiting = AtomicI32::new(0);
    let called = || {
        let items = super::items(&file);
        let waits =
            items.into_iter().filter_map(|item| if let Item::Off(off) = item { Some(off) } else { None });
        let tid = u64::try_from(waiting.load(Ordering::SeqCst)).unwrap();
        let called = waits.filter(|off| off.thread.tid == tid).find_map(|off| Some((off.call?, off.end)));
        called.map(|(call, end)| (call.to_string(), end.is_some()))
    };
    let read = format!("read({})", reader.as_raw_fd());
    thread::scope(|scope| {
        scope.spawn(|| {
            // SAFETY: returns a number.
            waiting.store(unsafe { libc::gettid() }, Ordering::SeqCst);
            receive(reader.as_raw_fd());
        });
        until_in_read(&waiting);
        trace.flush().unwrap();
        assert_eq!(called(), Some((read.clone(), false)));
        io::Write::write_all(&mut &writer, &[1]).unwrap();
    });
    trace.finish().unwrap();
    assert_eq!(called(), Some((read, true)));
}

/// A thread that is blocked when the trace ends, and one that has ended, say so.
#[test]
fn the_last_state_of_each_thread_is_known() {
    let _turn = turn();
    let folder = Folder::new("trace-off-last");
    let file = file(&folder, "last.probetrace");
    let Some(trace) = attach(PATHS, Trace::recorder()) else { return };
    let (reader, writer) = io::pipe().unwrap();
    let waiting = AtomicI32::new(0);
    thread::spawn(|| point!("ended")).join().unwrap();
    let last = thread::scope(|scope| {
        scope.spawn(|| {
            // SAFETY: returns a number.
            waiting.store(unsafe { libc::gettid() }, Ordering::SeqCst);
            receive(reader.as_raw_fd());
        });
        until_in_read(&waiting);
        trace.snapshot(&file).unwrap();
        io::Write::write_all(&mut &writer, &[1]).unwrap();
        super::items(&file).into_iter().filter_map(|item| match item {
            Item::Off(off) if off.end.is_none() => Some(off),
            _ => None,
        })
    });
    let tid = u64::try_from(waiting.load(Ordering::SeqCst)).unwrap();
    let last: Vec<_> = last.collect();
    let blocked = |it: &&Off| it.thread.tid == tid && !it.is_ready && !it.has_ended;
    let calls: Vec<_> = last.iter().filter(blocked).map(|it| it.call.clone().unwrap().to_string()).collect();
    assert_eq!(calls, [format!("read({})", reader.as_raw_fd())], "{last:?}");
    assert_eq!(last.iter().filter(|it| it.has_ended).count(), 1, "{last:?}");
    let mut recorded = Read::open(&[&file]).unwrap();
    let inside = Calls::new(recorded.items()).find_map(|step| match step.unwrap() {
        Step::Off(off) if off.off.thread.tid == tid && off.off.end.is_none() => off.inside,
        _ => None,
    });
    assert_eq!(inside.unwrap().path, "trace::threads::receive");
}

/// Threads end when they do, and not when somebody looks; also where a later thread has got their
/// memory, and makes no hit of the trace.
#[test]
fn threads_end_at_times_of_their_own() {
    let _turn = turn();
    let folder = Folder::new("trace-off-ended");
    let Some(trace) = attach(PATHS, Trace::recorder()) else { return };
    // SAFETY: returns a number.
    let tid = || unsafe { libc::gettid() };
    let short = move || {
        point!("short");
        tid()
    };
    let ended = u64::try_from(thread::spawn(short).join().unwrap()).unwrap();
    until_gone(ended);
    let ends = |name: &str| {
        let file = file(&folder, name);
        trace.snapshot(&file).unwrap();
        let ends = super::items(&file).into_iter().filter_map(|item| match item {
            Item::Off(off) if off.thread.tid == ended && off.has_ended => Some(off),
            _ => None,
        });
        ends.collect::<Vec<_>>()
    };
    let known = ends("first.probetrace");
    assert!(matches!(&*known, [off] if off.end.is_none() && !off.is_ready), "{known:?}");
    let other = select("trace::threads::elsewhere::later").unwrap().attach(Trace::recorder()).unwrap();
    let (reader, writer) = io::pipe().unwrap();
    let waiting = AtomicI32::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            elsewhere::later();
            waiting.store(tid(), Ordering::SeqCst);
            assert_eq!((&reader).read(&mut [0]).unwrap(), 1);
        });
        until_blocked(&waiting);
        assert_eq!(other.totals().written, 2);
        assert_eq!(ends("later.probetrace"), known);
        io::Write::write_all(&mut &writer, &[1]).unwrap();
    });
}

/// A thread hits while a snapshot waits for room in a pipe. The snapshot has copied the thread's
/// ring, or has not. Either way it has the wait before the hit.
#[test]
fn waits_between_the_parts_of_a_snapshot_are_in_it() {
    let _turn = turn();
    let folder = Folder::new("trace-off-between");
    let (fifo, file) = (folder.join("fifo"), file(&folder, "between.probetrace"));
    let name = std::ffi::CString::new(fifo.as_os_str().as_encoded_bytes()).unwrap();
    // SAFETY: a text that ends in zero.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    let Some(trace) = attach(PATHS, Trace::recorder()) else { return };
    // More than the pipe and the writer's memory hold.
    (0..40_000).for_each(|_| point!("many"));
    let (pipes, later) = (io::pipe().unwrap(), io::pipe().unwrap());
    let (waiting, done, copying) = (AtomicI32::new(0), AtomicI32::new(0), AtomicI32::new(0));
    // SAFETY: returns a number.
    let tid = || unsafe { libc::gettid() };
    thread::scope(|scope| {
        scope.spawn(|| {
            point!("first");
            waiting.store(tid(), Ordering::SeqCst);
            for pipe in [&pipes.0, &later.0] {
                assert_eq!((&*pipe).read(&mut [0]).unwrap(), 1);
            }
            point!("second");
            done.store(1, Ordering::SeqCst);
        });
        until_blocked(&waiting);
        io::Write::write_all(&mut &pipes.1, &[1]).unwrap();
        while readable(pipes.0.as_raw_fd()) {
            thread::yield_now();
        }
        until_blocked(&waiting);
        let snapshot = scope.spawn(|| {
            copying.store(tid(), Ordering::SeqCst);
            trace.snapshot(&fifo).unwrap();
        });
        let mut reader = fs::File::open(&fifo).unwrap();
        while !readable(reader.as_raw_fd()) {
            thread::yield_now();
        }
        until_blocked(&copying);
        io::Write::write_all(&mut &later.1, &[1]).unwrap();
        while done.load(Ordering::SeqCst) == 0 {
            thread::yield_now();
        }
        io::copy(&mut reader, &mut fs::File::create(&file).unwrap()).unwrap();
        snapshot.join().unwrap();
    });
    let waited = u64::try_from(waiting.load(Ordering::SeqCst)).unwrap();
    let is_wait = |item: &Item| matches!(item, Item::Off(off) if off.thread.tid == waited && !off.is_ready && off.end.is_some());
    assert!(super::items(&file).iter().any(is_wait));
}

/// Times that the kernel has overwritten are told, and no time is made up for them.
#[test]
fn times_that_are_lost_are_told() {
    let _turn = turn();
    let folder = Folder::new("trace-off-lost");
    let file = file(&folder, "lost.probetrace");
    let Some(trace) = attach(PATHS, Trace::to_file(&file)) else { return };
    point!("before");
    let begin = switches();
    // More than the kernel keeps.
    while switches()[0] < begin[0] + 2_000 {
        thread::sleep(std::time::Duration::from_nanos(1));
    }
    // Where the last ones are lost, and where the thread's next hit tells of it.
    trace.flush().unwrap();
    let check = || {
        let items = super::items(&file);
        let lost = items.iter().filter(|item| matches!(item, Item::OffLost(_))).count();
        let known = items.iter().filter(|item| matches!(item, Item::Off(off) if !off.is_ready)).count();
        assert!(lost == 1 && known > 0 && known < 2_000, "{lost} {known}");
    };
    check();
    point!("after");
    trace.finish().unwrap();
    check();
}

/// The states of each thread in Perfetto's format, also where that is written as the program runs.
#[test]
fn perfetto_has_them_as_states_of_threads() {
    let _turn = turn();
    let folder = Folder::new("trace-off-perfetto");
    let file = file(&folder, "off.pftrace");
    let Some(trace) = attach(PATHS, Trace::to_file(&file)) else { return };
    let counted = exchange(receive);
    trace.finish().unwrap();
    let states = perfetto::states(&file);
    assert!(states.is_sorted_by_key(|it| (it.thread, it.time)), "{states:#?}");
    let blocked = states.iter().filter(|it| it.state == perfetto::SLEEPING).count();
    assert!(blocked >= counted.least[0]);
    // Each time off ends on a processor, or is the last one. A thread that has ended is gone.
    for pair in states.windows(2).filter(|pair| pair[0].thread == pair[1].thread) {
        let runs = pair[0].state == perfetto::RUNNING;
        let is_gone = [pair[0].state, pair[1].state] == [perfetto::DEAD, perfetto::DESTROYED];
        assert!(is_gone || runs != (pair[1].state == perfetto::RUNNING), "{pair:?}");
    }
    let number = |state| states.iter().filter(|it| it.state == state).count();
    assert_eq!((number(perfetto::DEAD), number(perfetto::DESTROYED)), (1, 1), "{states:#?}");
}
