//! Copies of attached probes in objects that are loaded later: which operations find them, and how
//! they treat copies that can't be switched.

use std::ffi::c_void;
use std::fs;
use std::ops::Range;

use probe_runtime::losses::unreadable_records;
use probe_runtime::patch::{OpenText, RefusalReason, TextPolicy};
use probe_runtime::{Count, Error, probes, select};
use probe_tests::library::Library;
use probe_tests::pages::PAGE;
use probe_tests::text::Text;

use super::{own, plugin};

/// Pausing and resuming in open text don't look for new objects while all known probes are the
/// executable's; all other operations do.
pub(super) fn pausing_does_not_look() {
    let library = Library::open(&plugin("plugin"));
    let set = select("plugin::each kind=entry, **::own kind=entry").unwrap().text_policy(TextPolicy::Open);
    let hits = set.attach(Count::new()).unwrap();
    assert_eq!((hits.report().patched(), hits.late_report().to_string()), (2, empty()));
    library.close();
    assert_eq!((hits.total(), hits.late_report().unchanged()), (0, 1));

    let library = Library::open(&plugin("plugin"));
    assert_eq!((hits.pause().patched(), hits.resume().patched()), (1, 1));
    assert_eq!((library.function("plugin_sum"))(5), 15);
    assert_eq!(hits.total(), 0);
    // The report is about the new object alone, since none was unloaded.
    let late = hits.late_report();
    assert_eq!((late.patched(), late.unchanged(), late.refused()), (1, 0, 0));
    assert_eq!((library.function("plugin_sum"))(5), 15);
    assert_eq!(hits.total(), 5);
    // A hold looks for objects, too. Its release reports the sites that it switched back.
    let hold = select("**::own, plugin::**").unwrap().hold().unwrap();
    assert_eq!((hold.report().patched(), hold.release().patched()), (2, 2));
    // While a plugin's probe is known, pausing and resuming look for objects.
    library.close();
    assert_eq!((hits.pause().patched(), hits.resume().patched()), (1, 1));
    assert_eq!(hits.detach().patched(), 1);
}

fn empty() -> String {
    "no sites".to_owned()
}

/// A plugin is unloaded after its sites could not be made latent. The runtime forgets them, even if
/// the plugin is loaded again at the same address: foreign writes to a site of this program are
/// still detected.
pub(super) fn refused_before() {
    let library = Library::open(&plugin("plugin"));
    let place = (library.function("plugin_sum") as *const ()).addr();
    let refused = select("plugin::**").unwrap().strict(true).attach(Count::new()).unwrap();
    let site = own_site();
    let hits = select("**::own kind=entry").unwrap().attach(Count::new()).unwrap();
    let active = bytes_at(site);
    // A trap would kill this thread.
    set_mask(libc::SIG_BLOCK);
    assert_eq!(refused.pause().refused(), 5);
    set_mask(libc::SIG_UNBLOCK);
    library.close();
    assert_eq!(refused.detach().patched(), 0);
    let library = Library::open(&plugin("plugin"));
    assert_eq!((library.function("plugin_sum") as *const ()).addr(), place);

    assert_eq!(hits.pause().patched(), 1);
    let open = OpenText::new(site..site + NOP.len()).unwrap();
    // SAFETY: a site of this program, which no other thread executes, in text that is open; each of
    // its states is an instruction.
    unsafe { (site as *mut [u8; 5]).write_unaligned(active) };
    open.close().unwrap();
    let resumed = hits.resume();
    assert_eq!((resumed.patched(), resumed.unchanged(), resumed.foreign().len()), (0, 1, 1), "{resumed}");
    assert_eq!((own(1), hits.total(), hits.detach().patched()), (2, 1, 1));
    library.close();
}

const NOP: [u8; 5] = [0x0f, 0x1f, 0x44, 0x00, 0x08];

/// Returns the latent site at the entry of `own`.
fn own_site() -> usize {
    let start = (own as *const ()).addr();
    (start..start + 64).find(|addr| bytes_at(*addr) == NOP).expect("the entry's site")
}

fn bytes_at(addr: usize) -> [u8; 5] {
    // SAFETY: this program's text.
    unsafe { (addr as *const [u8; 5]).read_unaligned() }
}

/// Blocks or unblocks `SIGTRAP` for this thread.
fn set_mask(how: libc::c_int) {
    // SAFETY: a set, of one signal.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGTRAP);
        assert_eq!(libc::pthread_sigmask(how, &raw const set, std::ptr::null_mut()), 0);
    }
}

/// Another runtime is the first to attach to a plugin that is loaded again, so it owns the sites.
pub(super) fn taken_by_another() {
    let library = Library::open(&plugin("plugin"));
    let hits = select("plugin::**, **::own").unwrap().attach(Count::new()).unwrap();
    assert_eq!(hits.report().patched(), 7);
    library.close();
    let guest = Library::open(&plugin("guest"));
    let (attach, total, detach) =
        (guest.getter("guest_attach"), guest.getter("guest_total"), guest.getter("guest_detach"));
    let library = Library::open(&plugin("plugin"));
    let sum = library.function("plugin_sum");
    // The guest's own entry, and the plugin's two.
    assert_eq!(attach(), 3);

    let late = hits.late_report();
    assert_eq!((late.patched(), late.unchanged(), late.refused()), (3, 2, 2), "{late}");
    assert!(late.refusals().iter().all(|refusal| *refusal.reason() == RefusalReason::Taken), "{late}");
    assert_eq!((sum(3), own(1), total()), (6, 2, 3 + 1));
    assert_eq!(hits.total(), 3 + 3 + 1 + 2);
    // Later operations don't switch these sites either.
    assert_eq!((hits.pause().patched(), sum(1), total()), (5, 1, 6));
    assert_eq!((hits.resume().patched(), hits.total()), (5, 9));
    let entries = probes().into_iter().filter(|probe| probe.path() == "plugin::each");
    assert_eq!(entries.map(|probe| probe.sites()).sum::<usize>(), 2);
    let Err(Error::Refused(report)) = select("plugin::each kind=entry").unwrap().attach(Count::new()) else {
        panic!("attached to what another runtime has");
    };
    assert_eq!((report.refused(), report.refusals()[0].reason()), (1, &RefusalReason::Taken));
    assert_eq!(unreadable_records(), 0);

    // The guest leaves its sites latent; sites that it has not touched are free.
    assert_eq!((detach(), hits.detach().patched()), (3, 5));
    assert_eq!(select("plugin::** kind=exit").unwrap().attach(Count::new()).unwrap().report().patched(), 2);
    library.close();
    guest.close();
    Text::of_this_process().assert_as_in_file();
}

/// A definition stays damaged. Operations check its dangling pointer alone, until the pointer is
/// valid again.
pub(super) fn damaged() {
    let site = site_of(own as fn(u64) -> u64 as *const ());
    let hits = select("**::own kind=entry").unwrap().attach(Count::new()).unwrap();
    assert_eq!(hits.report().patched(), 1);
    let library = Library::open(&plugin("caller"));
    let pointers = pointers_to_long_texts();
    assert_eq!(pointers.len(), 2, "entry and exit");
    let whole: Vec<usize> = pointers.iter().map(|at| replace(*at, 0)).collect();

    // The first operation finds the plugin.
    let late = hits.late_report();
    assert_eq!((late.patched(), late.unchanged(), late.refused()), (0, 1, 0));
    let sites = unreadable_records();
    assert!(sites >= 2, "{sites}");
    // An operation that read all sites again would find this breakpoint.
    let instruction = set_breakpoint(site, 0xcc);
    for _ in 0..10 {
        assert_eq!(unreadable_records(), sites);
        assert_eq!(select("caller::**").unwrap().len(), 2);
        assert_eq!(hits.late_report().refused(), 0);
    }
    pointers.iter().zip(whole).for_each(|(at, pointer)| assert_eq!(replace(*at, pointer), 0));
    assert_eq!(select("caller::**").unwrap().len(), 4);
    assert_eq!((unreadable_records(), hits.late_report().refused()), (0, 1));
    assert!(matches!(hits.late_report().refusals()[0].reason(), RefusalReason::Foreign { .. }));

    assert_eq!(set_breakpoint(site, instruction), 0xcc);
    assert_eq!(own(1), 2);
    assert_eq!((hits.total(), hits.detach().patched()), (1, 1));
    library.close();
    Text::of_this_process().assert_as_in_file();
}

/// Returns the site at a function's entry: its latent NOP.
fn site_of(function: *const ()) -> usize {
    // SAFETY: text of this program, which continues for longer than that.
    let bytes = unsafe { std::slice::from_raw_parts(function.cast::<u8>(), 128) };
    let at = bytes.windows(5).position(|window| window == [0x0f, 0x1f, 0x44, 0x00, 0x08]);
    function.addr() + at.expect("a latent site")
}

/// Writes the first byte of an instruction that no thread executes; returns the previous byte.
fn set_breakpoint(at: usize, byte: u8) -> u8 {
    let text = OpenText::new(at..at + 1).unwrap();
    // SAFETY: it is open, and the one thread that could execute it is here.
    let before = unsafe { (at as *mut u8).replace(byte) };
    text.close().unwrap();
    before
}

/// Returns the addresses of the pointers in the definitions of `caller` to their long texts, which
/// the dynamic linker has filled in.
fn pointers_to_long_texts() -> Vec<usize> {
    const START: &[u8] = b"caller::a_module_whose_name_is_so_long";
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let segments: Vec<Range<usize>> = (maps.lines())
        .filter(|line| line.ends_with("/libcaller.so") && line.split(' ').nth(1).unwrap().starts_with('r'))
        .map(|line| {
            let (start, end) = line.split(' ').next().unwrap().split_once('-').unwrap();
            usize::from_str_radix(start, 16).unwrap()..usize::from_str_radix(end, 16).unwrap()
        })
        .collect();
    let is_text = |addr: usize| {
        let is_inside =
            segments.iter().any(|segment| segment.contains(&addr) && addr + START.len() <= segment.end);
        // SAFETY: within a segment that may be read.
        is_inside && unsafe { std::slice::from_raw_parts(addr as *const u8, START.len()) } == START
    };
    let words = segments.iter().flat_map(|segment| segment.clone().step_by(8));
    // SAFETY: as above.
    words.filter(|at| is_text(unsafe { (*at as *const usize).read() })).collect()
}

/// Replaces a pointer that the dynamic linker has made read-only; returns the previous one.
fn replace(at: usize, pointer: usize) -> usize {
    let page = (at & !(PAGE - 1)) as *mut c_void;
    // SAFETY: a page of a plugin that only this test uses.
    unsafe {
        assert_eq!(libc::mprotect(page, PAGE, libc::PROT_READ | libc::PROT_WRITE), 0);
        (at as *mut usize).replace(pointer)
    }
}
