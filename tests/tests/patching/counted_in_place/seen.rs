//! Reads the contents of sites.

use std::cell::Cell;
use std::fs;

use probe_runtime::patch::TextPolicy;
use probe_runtime::{Count, point, probes, select};
use probe_tests::text::{Text, write_byte};

use super::{Told, hot, with_field};

pub(super) const NOP: [u8; 5] = [0x0f, 0x1f, 0x44, 0x00, 0x08];

/// The content of a site, by the target of its jump.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Held {
    Nop,
    /// A jump into the text that it lies in.
    Cold,
    /// A jump to a page that can be executed and not written, and is no file's.
    Block(usize),
}

/// The sites of all active probes of this program, if nobody else has written to its text.
pub(super) fn active_sites() -> Vec<usize> {
    switched_in(&Text::of_this_process())
}

/// The same of another text.
pub(super) fn switched_in(text: &Text) -> Vec<usize> {
    let mut sites: Vec<usize> = Vec::new();
    for difference in text.differences() {
        if sites.last().is_none_or(|site| difference.at >= site + 5) {
            sites.push(difference.at);
        }
    }
    sites
}

pub(super) fn bytes(site: usize) -> [u8; 5] {
    // SAFETY: a site, which is mapped.
    unsafe { (site as *const [u8; 5]).read_volatile() }
}

/// Returns the target of the jump at a site.
pub(super) fn target(site: usize) -> usize {
    let [opcode, distance @ ..] = bytes(site);
    assert_eq!(opcode, 0xe9, "a jump");
    (site + 5).wrapping_add_signed(i32::from_le_bytes(distance) as isize)
}

pub(super) fn held(site: usize) -> Held {
    if bytes(site) == NOP {
        return Held::Nop;
    }
    let target = target(site);
    let line = mapping(target).unwrap_or_else(|| panic!("{target:#x} is not mapped"));
    if line.contains('/') {
        Held::Cold
    } else {
        assert!(line.contains(" r-xp "), "{line}");
        Held::Block(target)
    }
}

/// The line of `/proc/self/maps` that an address is in.
pub(super) fn mapping(addr: usize) -> Option<String> {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let holds = |line: &&str| {
        let (start, end) = line.split(' ').next().unwrap().split_once('-').unwrap();
        let number = |digits| usize::from_str_radix(digits, 16).unwrap();
        (number(start)..number(end)).contains(&addr)
    };
    maps.lines().find(holds).map(str::to_owned)
}

fn hits(times: u64) {
    (0..times).for_each(|x| _ = hot(x));
}

pub(super) fn in_each_state() {
    hits(1);
    let set = select("patching::counted_in_place::hot").unwrap();
    let counted = set.attach(Count::new()).unwrap();
    assert_eq!((counted.report().patched(), counted.report().unchanged()), (2, 0));
    let sites = active_sites();
    let blocks: Vec<_> = sites.iter().map(|site| held(*site)).collect();
    let [Held::Block(entry), Held::Block(exit)] = blocks[..] else { panic!("{blocks:?}") };
    assert!(entry % 32 == 0 && exit % 32 == 0 && entry != exit);
    hits(1_000);
    assert_eq!(counted.total(), 2_000);

    // A second attachment that only counts has the same hits counted.
    let also = set.attach(Count::new()).unwrap();
    assert_eq!((also.report().patched(), also.report().unchanged()), (0, 2));
    assert_eq!(sites.iter().map(|site| held(*site)).collect::<Vec<_>>(), blocks);
    hits(10);
    assert_eq!((counted.total(), also.total()), (2_020, 20));
    drop(also);

    let told = set.attach(Told).unwrap();
    assert_eq!((told.report().patched(), told.report().unchanged()), (0, 2));
    assert!(sites.iter().all(|site| held(*site) == Held::Cold));
    hits(10);
    assert_eq!(counted.total(), 2_040);
    let report = told.pause();
    assert_eq!((report.patched(), report.unchanged()), (0, 2));
    assert_eq!(sites.iter().map(|site| held(*site)).collect::<Vec<_>>(), blocks);
    hits(10);
    told.resume();
    assert!(sites.iter().all(|site| held(*site) == Held::Cold));
    hits(10);
    let report = told.detach();
    assert_eq!((report.patched(), report.unchanged(), report.foreign().len()), (0, 2, 0));
    assert_eq!(sites.iter().map(|site| held(*site)).collect::<Vec<_>>(), blocks);
    hits(10);
    assert_eq!(counted.total(), 2_100);

    let report = counted.pause();
    assert_eq!((report.patched(), report.foreign().len()), (2, 0));
    assert!(sites.iter().all(|site| held(*site) == Held::Nop));
    hits(10);
    assert_eq!(counted.resume().patched(), 2);
    hits(10);
    assert_eq!(sites.iter().map(|site| held(*site)).collect::<Vec<_>>(), blocks);
    let hold = set.hold().unwrap();
    hits(10);
    assert!(sites.iter().all(|site| held(*site) == Held::Nop));
    drop(hold);
    hits(10);
    assert_eq!(counted.total(), 2_140);
    assert!(probes().iter().all(|probe| probe.foreign().is_empty()));
    assert_eq!(counted.detach().patched(), 2);
    Text::of_this_process().assert_as_in_file();
    // The blocks stay, for those who come later.
    let again = set.attach(Count::new()).unwrap();
    assert_eq!(sites.iter().map(|site| held(*site)).collect::<Vec<_>>(), blocks);
    hits(1);
    assert_eq!(again.total(), 2);
}

pub(super) fn under_a_breakpoint() {
    hits(1);
    let set = select("patching::counted_in_place::hot kind=entry").unwrap();
    let counted = set.attach(Count::new()).unwrap();
    let site = active_sites()[0];
    let before = bytes(site);
    assert!(matches!(held(site), Held::Block(_)));
    write_byte(site, 0xcc);
    let foreign = counted.foreign();
    assert_eq!((foreign.len(), foreign[0].site()), (1, site));
    assert!(foreign[0].to_string().contains("a debugger's breakpoint"), "{}", foreign[0]);
    let report = counted.pause();
    assert_eq!((report.refused(), report.foreign().len()), (1, 1));
    write_byte(site, before[0]);
    hits(3);
    assert_eq!(counted.resume().refused(), 0);
    hits(3);
    // Somebody's NOP is found, too.
    for (at, byte) in NOP.into_iter().enumerate() {
        write_byte(site + at, byte);
    }
    assert_eq!(counted.foreign().len(), 1);
    let report = set.attach(Told).unwrap().detach();
    assert_eq!(report.refused(), 0);
    assert!(counted.foreign().is_empty());
    assert!(matches!(held(site), Held::Block(_)));
    hits(3);
    assert_eq!(counted.total(), 9, "those while a pause was refused, too");
}

pub(super) fn under_each_policy() {
    hits(1);
    let set = select("patching::counted_in_place::hot").unwrap();
    let every = [TextPolicy::Sealed, TextPolicy::Open, TextPolicy::Alias];
    for (policy, strict) in every.into_iter().flat_map(|policy| [(policy, false), (policy, true)]) {
        // Without blocks first, where the kernel writes.
        let own = set.clone().text_policy(policy).strict(strict);
        let counted = own.attach(Count::new()).unwrap();
        let sites = active_sites();
        hits(5);
        for _ in 0..2 {
            let told = own.attach(Told).unwrap();
            assert_eq!((told.report().patched(), told.report().unchanged()), (0, 2));
            assert!(sites.iter().all(|site| held(*site) == Held::Cold), "{policy:?}");
            hits(5);
            assert!(told.detach().is_complete());
            assert!(sites.iter().all(|site| matches!(held(*site), Held::Block(_))), "{policy:?}");
            hits(5);
        }
        assert_eq!(counted.total(), 50, "{policy:?} {strict}");
        assert_eq!(counted.detach().patched(), 2);
        Text::of_this_process().assert_as_in_file();
    }
}

pub(super) fn with_fields() {
    thread_local! {
        static EVALUATED: Cell<u64> = const { Cell::new(0) };
    }
    let work = || {
        point!("noted", number = EVALUATED.replace(EVALUATED.get() + 1));
    };
    work();
    assert_eq!(with_field(1), 2);
    let counted = select("patching::counted_in_place::**::noted, patching::counted_in_place::**::with_field")
        .unwrap()
        .attach(Count::new())
        .unwrap();
    (0..10).for_each(|x| {
        work();
        assert_eq!(with_field(x), x + 1);
    });
    assert_eq!((counted.total(), EVALUATED.get()), (30, 10));
    let cold = |site: &usize| held(*site) == Held::Cold;
    // With optimization, there are copies.
    assert!(active_sites().iter().filter(|site| cold(site)).count() >= 2);
    let told = select("patching::counted_in_place::**::noted").unwrap().attach(Told).unwrap();
    work();
    drop(told);
    work();
    assert_eq!((counted.total(), EVALUATED.get()), (32, 12));
}
