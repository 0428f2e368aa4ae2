//! Who may write which pages: guards on any mapping, beside each other and beside batches, and the rights of before
//! afterwards, read from the kernel.
//! A process of its own: its batches and guards share the text of the program. What can't be undone (seals, filters)
//! happens in children.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_portable, probe_off))))]

use std::env;
use std::fs;
use std::ops::Range;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use probe_runtime::patch::{OpenText, TextError, unrestored_bytes};
use probe_runtime::{Count, Error, RefusalReason, TextPolicy, Visibility, point, select};
use probe_tests::text::Text;

const CHILD: &str = "PROBE_TEST_SCENARIO";
const PAGE: usize = 4096;
const NONE: i32 = libc::PROT_NONE;
const R: i32 = libc::PROT_READ;
const RW: i32 = R | libc::PROT_WRITE;
const RX: i32 = R | libc::PROT_EXEC;
const RWX: i32 = RW | libc::PROT_EXEC;

/// Some tests look at the whole text, and each at all that stays writable.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

#[inline(never)]
fn first(x: u64) -> u64 {
    point!("first");
    x + 1
}

#[inline(never)]
fn second(x: u64) -> u64 {
    point!("second");
    x * 2
}

/// Pages of this test's own, one for each of `rights`; given back at the end.
struct Pages(Range<usize>);

impl Pages {
    fn new(rights: &[i32]) -> Self {
        let (len, flags) = (rights.len() * PAGE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new private mapping overlaps nothing.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), len, NONE, flags, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED);
        let pages = Self(start.addr()..start.addr() + len);
        for (at, rights) in rights.iter().enumerate() {
            pages.protect(at, *rights);
        }
        pages
    }

    fn at(&self, page: usize) -> usize {
        self.0.start + page * PAGE
    }

    fn protect(&self, page: usize, rights: i32) {
        // SAFETY: a page of this test's own.
        assert_eq!(unsafe { libc::mprotect(self.at(page) as *mut _, PAGE, rights) }, 0);
    }

    fn unmap(&self, page: usize) {
        // SAFETY: a page of this test's own.
        assert_eq!(unsafe { libc::munmap(self.at(page) as *mut _, PAGE) }, 0);
    }

    /// The rights of each page, by the kernel; `""` for one that is not mapped.
    fn rights(&self) -> Vec<String> {
        rights(&self.0)
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: a mapping of this test's own, which nobody refers to any more.
        unsafe { libc::munmap(self.0.start as *mut _, self.0.len()) };
    }
}

/// The rights of each page of a range, as in `/proc/self/maps`.
fn rights(range: &Range<usize>) -> Vec<String> {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let lines: Vec<(Range<usize>, &str)> = (maps.lines())
        .map(|line| {
            let mut words = line.split_whitespace();
            let (start, end) = words.next().unwrap().split_once('-').unwrap();
            let number = |digits| usize::from_str_radix(digits, 16).unwrap();
            (number(start)..number(end), words.next().unwrap())
        })
        .collect();
    let of =
        |page: usize| lines.iter().find(|(pages, _)| pages.contains(&page)).map_or("", |(_, rights)| rights);
    range.clone().step_by(PAGE).map(|page| of(page).to_owned()).collect()
}

/// A byte of memory that may be changed by others at any time.
fn byte(at: usize) -> &'static AtomicU8 {
    // SAFETY: the callers name mapped memory, which outlives what they do with it.
    unsafe { AtomicU8::from_ptr(at as *mut u8) }
}

fn is_open(rights: &str) -> bool {
    rights.as_bytes()[1] == b'w'
}

#[test]
fn a_range_across_two_pages_of_different_rights() {
    let _turn = turn();
    let pages = Pages::new(&[RX, RX, R, RX]);
    let across = pages.at(2) - 2..pages.at(2) + 3;
    let open = OpenText::new(across.clone()).unwrap();
    assert_eq!(open.pages(), pages.at(1)..pages.at(3));
    // What could not be executed still can't, and the neighbours are as they were.
    assert_eq!(pages.rights(), ["r-xp", "rwxp", "rw-p", "r-xp"]);
    for at in across.clone() {
        byte(at).store(0x90, Ordering::Relaxed);
    }
    open.close().unwrap();
    assert_eq!(pages.rights(), ["r-xp", "r-xp", "r--p", "r-xp"]);
    assert_eq!(across.map(|at| byte(at).load(Ordering::Relaxed)).collect::<Vec<_>>(), [0x90; 5]);
    assert_eq!(unrestored_bytes(), 0);
}

#[test]
fn runs_of_pages_get_back_each_its_own() {
    let _turn = turn();
    let rights = [R, R, RX, RW, RWX, RX, RX, R];
    let before = ["r--p", "r--p", "r-xp", "rw-p", "rwxp", "r-xp", "r-xp", "r--p"];
    let open = ["rw-p", "rw-p", "rwxp", "rw-p", "rwxp", "rwxp", "rwxp", "rw-p"];
    let pages = Pages::new(&rights);
    let all = OpenText::new(pages.0.clone()).unwrap();
    assert_eq!(pages.rights(), open);
    // One within, one that ends within, one that begins within; all outlive the first.
    let within = OpenText::new(pages.at(2)..pages.at(2) + 1).unwrap();
    let over = OpenText::new(pages.at(4) + 9..pages.at(6)).unwrap();
    drop(all);
    assert_eq!(pages.rights(), ["r--p", "r--p", "rwxp", "rw-p", "rwxp", "rwxp", "r-xp", "r--p"]);
    let again = OpenText::new(pages.at(5)..pages.at(7)).unwrap();
    drop(over);
    assert_eq!(pages.rights(), ["r--p", "r--p", "rwxp", "rw-p", "rwxp", "rwxp", "rwxp", "r--p"]);
    drop((within, again));
    assert_eq!(pages.rights(), before);
    // An empty range opens nothing, wherever it is.
    let none = OpenText::new(pages.at(3) + 7..pages.at(3) + 7).unwrap();
    assert!(none.pages().is_empty());
    assert_eq!(pages.rights(), before);
    none.close().unwrap();
}

#[test]
fn where_there_is_no_text_the_error_names_the_address_and_nothing_opens() {
    let _turn = turn();
    let pages = Pages::new(&[RX, NONE, RX, RX, RX, NONE]);
    pages.unmap(3);
    let before = ["r-xp", "---p", "r-xp", "", "r-xp", "---p"];
    assert_eq!(pages.rights(), before);
    let error = |range| OpenText::new(range).unwrap_err();
    assert_eq!(error(pages.at(0)..pages.at(2)), TextError::NotReadable { addr: pages.at(1) });
    assert_eq!(error(pages.at(1) + 5..pages.at(1) + 6), TextError::NotReadable { addr: pages.at(1) + 5 });
    assert_eq!(error(pages.at(2)..pages.at(5)), TextError::Unmapped { addr: pages.at(3) });
    assert_eq!(error(pages.at(3) + 1..pages.at(3) + 2), TextError::Unmapped { addr: pages.at(3) + 1 });
    assert_eq!(error(8..9), TextError::Unmapped { addr: 8 });
    assert_eq!(error(usize::MAX - 3..usize::MAX), TextError::Unmapped { addr: usize::MAX - 3 });
    let at = pages.at(3);
    assert_eq!(error(at..at + 1).to_string(), format!("nothing is mapped at {at:#x}"));
    assert_eq!(pages.rights(), before);
    // Neighbours that may not be read or are not mapped are no obstacle, and are not touched.
    let (two, four) = (OpenText::new(pages.at(2)..pages.at(3)), OpenText::new(pages.at(4)..pages.at(5)));
    assert_eq!(pages.rights(), ["r-xp", "---p", "rwxp", "", "rwxp", "---p"]);
    drop((two.unwrap(), four.unwrap()));
    assert_eq!(pages.rights(), before);
}

#[test]
fn a_shared_mapping_of_a_read_only_file_is_refused_whole() {
    let _turn = turn();
    let pages = Pages::new(&[RX, RX, RX]);
    let file = fs::File::open("/proc/self/exe").unwrap();
    let flags = libc::MAP_SHARED | libc::MAP_FIXED;
    let descriptor = std::os::fd::AsRawFd::as_raw_fd(&file);
    // SAFETY: replaces a page of this test's own.
    let shared = unsafe { libc::mmap(pages.at(1) as *mut _, PAGE, RX, flags, descriptor, 0) };
    assert_eq!(shared.addr(), pages.at(1));
    let error = OpenText::new(pages.0.clone()).unwrap_err();
    assert_eq!(error, TextError::Protected { pages: pages.0.clone(), errno: libc::EACCES });
    assert!(error.to_string().contains("TextPolicy::Alias"), "{error}");
    // The first had been opened by then.
    assert_eq!(pages.rights(), ["r-xp", "r-xs", "r-xp"]);
    assert_eq!(unrestored_bytes(), 0);
}

#[test]
fn what_was_unmapped_under_a_guard_is_no_failure() {
    let _turn = turn();
    let pages = Pages::new(&[RX, RX, RX]);
    let open = OpenText::new(pages.0.clone()).unwrap();
    pages.unmap(1);
    open.close().unwrap();
    assert_eq!(pages.rights(), ["r-xp", "", "r-xp"]);
    assert_eq!(unrestored_bytes(), 0);
}

/// A cheap pseudo-random sequence.
struct Sequence(u64);

impl Sequence {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % end as u64).unwrap()
    }
}

#[test]
fn guards_of_several_threads_overlap_in_any_order() {
    const ROUNDS: usize = 3_000;
    let _turn = turn();
    let kinds = [R, RX, RX, RW, RX, R, RWX, RX, RX, RX, R, RX];
    let pages = Pages::new(&kinds);
    let before = pages.rights();
    thread::scope(|scope| {
        for thread in 0..4 {
            let pages = &pages;
            scope.spawn(move || {
                let (mut random, mut held) = (Sequence(0x9e37_79b9 + thread as u64), Vec::new());
                for round in 0..ROUNDS {
                    let start = random.below(kinds.len());
                    let end = start + 1 + random.below(kinds.len() - start);
                    let bytes = pages.at(start) + random.below(PAGE)..pages.at(end);
                    let open = OpenText::new(bytes).unwrap();
                    // Each thread has a byte of its own in each page: the write arrives, or this is a SIGSEGV.
                    let value = u8::try_from(round % 251).unwrap();
                    for page in start..end {
                        byte(pages.at(page) + thread).store(value, Ordering::Relaxed);
                    }
                    for page in start..end {
                        assert_eq!(byte(pages.at(page) + thread).load(Ordering::Relaxed), value);
                    }
                    held.push(open);
                    if held.len() > 3 {
                        held.swap_remove(random.below(held.len())).close().unwrap();
                    }
                }
            });
        }
    });
    assert_eq!(pages.rights(), before);
    assert_eq!(unrestored_bytes(), 0);
}

#[test]
fn batches_and_guards_race_on_the_same_pages() {
    const ROUNDS: u64 = 1_000;
    let _turn = turn();
    let text = Text::of_this_process();
    let sites = [first as fn(u64) -> u64 as usize, second as fn(u64) -> u64 as usize];
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for thread in 0..2 {
            let (stop, sites) = (&stop, &sites);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let at = sites[thread];
                    let open = OpenText::new(at..at + 1).unwrap();
                    // The same byte again, which takes the right to write.
                    let byte = byte(at);
                    let was = byte.load(Ordering::Relaxed);
                    let _ = byte.compare_exchange(was, was, Ordering::SeqCst, Ordering::SeqCst);
                    open.close().unwrap();
                    // The mutex is not a fair one.
                    thread::yield_now();
                }
            });
        }
        let set = select("text::*").unwrap();
        let policies = [TextPolicy::Sealed, TextPolicy::Open];
        for round in 0..ROUNDS {
            let policy = policies[usize::try_from(round % 2).unwrap()];
            let set = set.clone().text(policy).visibility(Visibility::Eventual);
            let hits = set.attach(Count::new()).unwrap();
            let report = hits.report();
            assert_eq!((report.patched(), report.is_complete()), (2, true), "{report}");
            assert_eq!(hits.pause().patched(), 2);
            assert_eq!(hits.resume().patched(), 2);
            assert_eq!((first(round), second(round)), (round + 1, round * 2));
            assert_eq!(hits.total(), 2);
            let report = hits.detach();
            assert_eq!((report.patched(), report.unsealed()), (2, 0), "{report}");
        }
        stop.store(true, Ordering::Relaxed);
    });
    text.assert_as_in_file();
    assert_eq!(unrestored_bytes(), 0);
}

#[test]
fn a_batch_under_a_guard_seals_nothing() {
    let _turn = turn();
    let text = Text::of_this_process();
    let guard = OpenText::new(text.range()).unwrap();
    let all = guard.pages();
    assert!(rights(&all).iter().all(|rights| rights == "rwxp"));
    let hits = select("text::*").unwrap().attach(Count::new()).unwrap();
    assert!(rights(&all).iter().all(|rights| rights == "rwxp"));
    // The other way round: the guard ends first, and leaves what an open attachment needs.
    let held = select("**::first").unwrap().text(TextPolicy::Open).attach(Count::new()).unwrap();
    guard.close().unwrap();
    assert!(rights(&all).iter().all(|rights| is_open(rights)));
    assert_eq!(held.pause().unchanged(), 1, "the other attachment listens");
    assert_eq!((hits.detach().patched(), held.detach().patched()), (2, 0), "the other one is paused");
    let hits = select("text::*").unwrap().attach(Count::new()).unwrap();
    assert_eq!(hits.detach().patched(), 2);
    text.assert_as_in_file();
}

#[test]
fn text_that_was_writable_before_stays_so() {
    let _turn = turn();
    let text = Text::of_this_process();
    let page = first as fn(u64) -> u64 as usize & !(PAGE - 1);
    let around = page..page + PAGE;
    let protect = |rights| {
        // SAFETY: a page of this program's text, which stays readable and executable.
        assert_eq!(unsafe { libc::mprotect(page as *mut _, PAGE, rights) }, 0);
    };
    protect(RWX);
    let guard = OpenText::new(around.clone()).unwrap();
    guard.close().unwrap();
    assert_eq!(rights(&around), ["rwxp"]);
    protect(RX);
    let hits = select("**::first").unwrap().attach(Count::new()).unwrap();
    drop(hits);
    text.assert_as_in_file();
}

#[track_caller]
fn runs_in_a_child(scenario: &str) {
    let program = env::current_exe().unwrap();
    let mut command = Command::new(program);
    let output = command.args(["--exact", "scenario", "--nocapture"]).env(CHILD, scenario).output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{stdout}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(stdout.contains(&format!("done: {scenario}")), "{stdout}");
    print!("{stdout}");
}

#[test]
fn sealed_mappings_are_refused_and_nothing_changes() {
    runs_in_a_child("mseal");
}

#[test]
fn a_policy_against_writable_code_is_refused_and_nothing_changes() {
    runs_in_a_child("write xor execute");
}

#[test]
fn a_denied_mprotect_is_refused_and_nothing_changes() {
    runs_in_a_child("no mprotect");
}

#[test]
fn what_can_not_be_restored_is_told_and_counted() {
    runs_in_a_child("no way back");
}

#[test]
fn without_the_maps_file_batches_go_on_and_guards_are_refused() {
    runs_in_a_child("no maps");
}

#[test]
fn without_the_ioctl_the_file_is_read() {
    runs_in_a_child("no ioctl");
}

#[test]
fn a_child_process_has_its_own_openers() {
    runs_in_a_child("fork");
}

/// What the children do.
#[test]
fn scenario() {
    let Some(scenario) = env::var_os(CHILD) else { return };
    match scenario.to_str().unwrap() {
        "mseal" => mseal(),
        "write xor execute" => write_xor_execute(),
        "no mprotect" => no_mprotect(),
        "no way back" => no_way_back(),
        "no maps" => no_maps(),
        "no ioctl" => no_ioctl(),
        "fork" => fork(),
        other => panic!("no scenario {other}"),
    }
    println!("done: {}", scenario.display());
}

/// Attaching under each policy that needs `mprotect` is refused with this error number, and changes nothing.
fn assert_all_refused(errno: i32) {
    let text = Text::of_this_process();
    let set = select("text::*").unwrap();
    let error = set.attach(Count::new()).unwrap_err();
    let Error::Refused(report) = &error else { panic!("{error}") };
    assert_eq!((report.patched(), report.unchanged(), report.refused()), (0, 0, 2));
    for refusal in report.refusals() {
        assert_eq!(*refusal.reason(), RefusalReason::Protected { errno });
    }
    assert!(error.to_string().ends_with("TextPolicy::Alias writes there"), "{error}");
    let error = set.text(TextPolicy::Open).attach(Count::new()).unwrap_err();
    let Error::TextProtected { text: range, error: reason } = &error else { panic!("{error}") };
    assert_eq!((range, reason.raw_os_error()), (&text.range(), Some(errno)));
    assert!(error.to_string().contains("TextPolicy::Alias"), "{error}");
    let error = OpenText::new(text.range()).unwrap_err();
    assert_eq!(error.errno(), Some(errno));
    assert!(error.to_string().contains("TextPolicy::Alias writes there"), "{error}");
    assert_eq!((first(1), second(1)), (2, 2));
    text.assert_as_in_file();
    assert_eq!(unrestored_bytes(), 0);
}

fn mseal() {
    const SYS_MSEAL: libc::c_long = 462;
    let pages = Pages::new(&[RX, RX, RX]);
    let seal = |range: &Range<usize>| {
        // SAFETY: from here on the mapping can't be changed, which nobody wants to.
        if unsafe { libc::syscall(SYS_MSEAL, range.start, range.len(), 0) } == 0 {
            return true;
        }
        assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::ENOSYS));
        println!("skipped: this kernel has no mseal(2)");
        false
    };
    if !seal(&(pages.at(1)..pages.at(2))) {
        return;
    }
    let error = OpenText::new(pages.at(0)..pages.at(3)).unwrap_err();
    assert_eq!(error.errno(), Some(libc::EPERM));
    // The page before had been opened by then.
    assert_eq!(pages.rights(), ["r-xp", "r-xp", "r-xp"]);
    let beside = OpenText::new(pages.at(0)..pages.at(1)).unwrap();
    assert_eq!(pages.rights(), ["rwxp", "r-xp", "r-xp"]);
    beside.close().unwrap();
    let range = Text::of_this_process().range();
    assert!(seal(&(range.start & !(PAGE - 1)..range.end.next_multiple_of(PAGE))));
    assert_all_refused(libc::EPERM);
}

fn write_xor_execute() {
    const PR_SET_MDWE: i32 = 65;
    // SAFETY: no pointers. From here on, nothing that can be executed can become writable.
    if unsafe { libc::prctl(PR_SET_MDWE, 1, 0, 0, 0) } != 0 {
        println!("skipped: this kernel has no PR_SET_MDWE");
        return;
    }
    assert_all_refused(libc::EACCES);
}

/// One instruction of a classic BPF program.
fn bpf(code: u32, jump: (u8, u8), k: u32) -> libc::sock_filter {
    libc::sock_filter { code: u16::try_from(code).unwrap(), jt: jump.0, jf: jump.1, k }
}

/// From here on, `syscall` fails with `EPERM` where the argument at `offset` of `struct seccomp_data`, masked, is `value`.
fn deny(syscall: libc::c_long, offset: u32, mask: u32, value: u32) {
    let load = |offset| bpf(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, (0, 0), offset);
    let is_equal = |k, jump| bpf(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, jump, k);
    let mut program = [
        load(0),
        is_equal(u32::try_from(syscall).unwrap(), (0, 4)),
        load(offset),
        bpf(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, (0, 0), mask),
        is_equal(value, (0, 1)),
        bpf(libc::BPF_RET | libc::BPF_K, (0, 0), libc::SECCOMP_RET_ERRNO | libc::EPERM.unsigned_abs()),
        bpf(libc::BPF_RET | libc::BPF_K, (0, 0), libc::SECCOMP_RET_ALLOW),
    ];
    let filter = libc::sock_fprog { len: 7, filter: program.as_mut_ptr() };
    // SAFETY: no pointers.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }, 0);
    let (set_filter, all_threads) = (libc::SECCOMP_SET_MODE_FILTER, libc::SECCOMP_FILTER_FLAG_TSYNC);
    // SAFETY: the program and its description are alive for the call, which copies them.
    let result = unsafe { libc::syscall(libc::SYS_seccomp, set_filter, all_threads, &raw const filter) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

/// Where `struct seccomp_data` has an argument's low half.
const fn argument(index: u32) -> u32 {
    16 + 8 * index
}

const ALL: u32 = u32::MAX;

fn no_mprotect() {
    deny(libc::SYS_mprotect, argument(2), RWX.unsigned_abs(), RWX.unsigned_abs());
    assert_all_refused(libc::EPERM);
}

fn no_way_back() {
    let text = Text::of_this_process();
    let pages = Pages::new(&[RX, R]);
    let (one, two) =
        (OpenText::new(pages.at(0)..pages.at(2)).unwrap(), OpenText::new(pages.at(0)..pages.at(1)));
    let hits = select("text::*").unwrap().text(TextPolicy::Open).attach(Count::new()).unwrap();
    // Text can be opened, but not be sealed.
    deny(libc::SYS_mprotect, argument(2), ALL, RX.unsigned_abs());
    one.close().unwrap();
    assert_eq!((pages.rights(), unrestored_bytes()), (vec!["rwxp".to_owned(), "r--p".to_owned()], 0));
    let error = two.unwrap().close().unwrap_err();
    assert_eq!(error, TextError::Unrestored { pages: pages.at(0)..pages.at(1), errno: libc::EPERM });
    assert_eq!(unrestored_bytes(), PAGE);
    // Another guard works, and fails to restore what the first one could not.
    drop(OpenText::new(pages.0.clone()).unwrap());
    assert_eq!((pages.rights(), unrestored_bytes()), (vec!["rwxp".to_owned(), "r--p".to_owned()], PAGE));
    let report = hits.detach();
    assert_eq!((report.patched(), report.unsealed(), report.is_complete()), (2, 1, false), "{report}");
    let whole = text.range().start & !(PAGE - 1)..text.range().end.next_multiple_of(PAGE);
    assert_eq!(unrestored_bytes(), PAGE + whole.len());
    assert_eq!(text.differences(), []);
    // Batches go on there.
    let hits = select("**::first").unwrap().attach(Count::new()).unwrap();
    assert_eq!((hits.report().patched(), hits.report().unsealed()), (1, 1));
    assert_eq!((first(1), hits.total()), (2, 1));
    drop(hits);
    assert_eq!(text.differences(), []);
}

fn no_maps() {
    let text = Text::of_this_process();
    // As where no descriptor is free, or `/proc` is not mounted: the sandbox lets no file be opened.
    deny(libc::SYS_openat, argument(2), 0, 0);
    let at = first as fn(u64) -> u64 as usize;
    let error = OpenText::new(at..at + 1).unwrap_err();
    assert_eq!(error, TextError::Unknown { errno: libc::EPERM });
    let hits = select("text::*").unwrap().attach(Count::new()).unwrap();
    assert_eq!((first(1), second(1), hits.total()), (2, 2, 2));
    let report = hits.detach();
    assert_eq!((report.patched(), report.is_complete()), (2, true));
    assert_eq!(text.differences(), []);
    let refused = select("text::*").unwrap().text(TextPolicy::Alias).attach(Count::new()).unwrap_err();
    let Error::Refused(report) = &refused else { panic!("{refused}") };
    assert_eq!(*report.refusals()[0].reason(), RefusalReason::NoAlias { errno: libc::EPERM });
    assert!(refused.to_string().contains("proc_mem.force_override"), "{refused}");
}

fn no_ioctl() {
    let pages = Pages::new(&[RX, R, NONE]);
    deny(libc::SYS_ioctl, argument(1), ALL, 0xc068_6611);
    let open = OpenText::new(pages.at(0) + 9..pages.at(2)).unwrap();
    assert_eq!(pages.rights(), ["rwxp", "rw-p", "---p"]);
    open.close().unwrap();
    assert_eq!(pages.rights(), ["r-xp", "r--p", "---p"]);
    assert_eq!(OpenText::new(pages.0.clone()).unwrap_err(), TextError::NotReadable { addr: pages.at(2) });
    let text = Text::of_this_process();
    assert_eq!(select("text::*").unwrap().attach(Count::new()).unwrap().detach().patched(), 2);
    text.assert_as_in_file();
}

fn fork() {
    let pages = Pages::new(&[RX, RX]);
    let (inner, outer) = (OpenText::new(pages.at(0)..pages.at(1)), OpenText::new(pages.0.clone()));
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        // The mutex is taken most of the time.
        scope.spawn(|| {
            let busy = Pages::new(&[RX]);
            while !stop.load(Ordering::Relaxed) {
                drop(OpenText::new(busy.0.clone()).unwrap());
            }
        });
        for _ in 0..50 {
            // SAFETY: the child calls what a child of a program with threads may, and the runtime, which takes its
            // locks across a fork.
            let child = unsafe { libc::fork() };
            if child == 0 {
                // SAFETY: no pointers.
                unsafe { libc::alarm(20) };
                let done = std::panic::catch_unwind(|| {
                    let again = OpenText::new(pages.at(1)..pages.at(2)).unwrap();
                    drop(again);
                    assert_eq!(pages.rights(), ["rwxp", "rwxp"]);
                });
                // SAFETY: ends this process at once.
                unsafe { libc::_exit(i32::from(done.is_err())) };
            }
            let mut status = -1;
            // SAFETY: `status` is a place for the result.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            assert_eq!(status, 0);
        }
        stop.store(true, Ordering::Relaxed);
    });
    drop(inner);
    assert_eq!(pages.rights(), ["rwxp", "rwxp"]);
    drop(outer);
    assert_eq!(pages.rights(), ["r-xp", "r-xp"]);
}
