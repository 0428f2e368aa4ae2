//! Tracers on functions with probes: real uprobes on a function's symbol and on its entry's site,
//! and a debugger's `int3` there; put before a site is activated and after it, hit in between and
//! not. Counts, bytes and states are exact in each cell.
//!
//! A process of its own: it lists and counts all of its own probes, and tears sites. Without root,
//! uprobes are left out.
#![cfg(all(target_os = "linux", not(probe_portable)))]

use std::hint::black_box;

use probe_runtime::patch::{Instruction, RefusalReason, word};
use probe_runtime::registry::ProbeState;
use probe_runtime::{Attachment, Count, Kind, probe, probes, select};
use probe_tests::text::Text;
use probe_tests::uprobe::{self, Uprobe};
// The tests share the probe.
use probe_tests::turn::turn;

const NOP: [u8; 5] = Instruction::NOP5.bytes();
const HITS: u64 = 1_000;

#[probe]
#[inline(never)]
fn work(x: u64) -> u64 {
    black_box(x).wrapping_mul(3) ^ 7
}

fn symbol() -> usize {
    work as fn(u64) -> u64 as usize
}

fn bytes_at(addr: usize) -> [u8; 5] {
    // SAFETY: text of this program, which is read byte by byte.
    std::array::from_fn(|at| unsafe { ((addr + at) as *const u8).read_volatile() })
}

/// The entry's site. The text is latent.
fn site() -> usize {
    let found = (symbol()..symbol() + 64).find(|addr| bytes_at(*addr) == NOP).expect("the entry's site");
    assert_ne!(found, symbol(), "a tracer on the symbol has an instruction of its own");
    found
}

fn hit(times: u64) {
    (0..times).for_each(|x| {
        black_box(work(x));
    });
}

fn attach() -> Attachment<Count> {
    select("patching::uprobes::**::work").unwrap().attach(Count::new()).unwrap()
}

fn counted(hits: &Attachment<Count>) -> (u64, u64) {
    let of = |kind| hits.counts().iter().find(|it| it.probe.kind() == kind).map_or(0, |it| it.hits);
    (of(Kind::Entry), of(Kind::Exit))
}

fn state(kind: Kind) -> ProbeState {
    probes().iter().find(|it| it.kind() == kind && it.path() == "patching::uprobes::work").unwrap().state()
}

/// Returns the expected bytes of the entry's site, and the found ones.
fn foreign() -> Option<([u8; 5], [u8; 5])> {
    let probes = probes();
    let entry =
        probes.iter().find(|it| it.kind() == Kind::Entry && it.path() == "patching::uprobes::work").unwrap();
    assert_eq!(entry.state() == ProbeState::Foreign, !entry.foreign().is_empty());
    let [stray] = entry.foreign() else { return None };
    assert_eq!(stray.site(), site_kept());
    match stray.reason() {
        RefusalReason::Foreign { expected, found } => Some((*expected, *found)),
        other => panic!("{other:?}"),
    }
}

/// The entry's site, as it was found while the text was latent.
fn site_kept() -> usize {
    static SITE: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
    *SITE.get_or_init(site)
}

/// Checks that counts, the report and the next operation show the found bytes.
fn is_told(hits: &Attachment<Count>, found: [u8; 5]) {
    let text = format!("found {found:02x?}");
    assert!(
        hits.foreign().len() == 1 && hits.foreign()[0].to_string().contains(&text),
        "{:?}",
        hits.foreign()
    );
    let note = "1 site holds other bytes than it was left with, and hits may be missing:";
    for report in [hits.counts().to_string(), hits.to_string()] {
        assert_eq!((report.matches(note).count(), report.contains(&text)), (1, true), "{report}");
    }
}

/// Makes the site whole, as the error says.
fn repair() {
    // SAFETY: the NOP that stood there, in place of what nobody executes.
    unsafe { word::patch(site_kept(), NOP.into()) }.expect("it can be written");
}

fn is_as_in_file() {
    assert_eq!(bytes_at(site_kept()), NOP);
    assert_eq!((state(Kind::Entry), state(Kind::Exit)), (ProbeState::Latent, ProbeState::Latent));
    Text::of_this_process().assert_as_in_file();
}

fn has_uprobes() -> bool {
    let missing = uprobe::missing();
    missing.iter().for_each(|why| println!("skipped: no uprobes: {why}"));
    missing.is_none()
}

#[test]
fn a_uprobe_on_the_symbol_disturbs_nothing() {
    let _turn = turn();
    let site = site_kept();
    if !has_uprobes() {
        return;
    }
    for (is_first, times) in [(true, 0), (true, HITS), (false, 0), (false, HITS)] {
        let cell = format!("put first: {is_first}, {times} hits");
        let early = is_first.then(|| Uprobe::put(symbol()));
        let hits = attach();
        let active = bytes_at(site);
        assert_eq!((hits.report().patched(), hits.report().refused(), active[0]), (2, 0, 0xe9), "{cell}");
        let uprobe = early.unwrap_or_else(|| Uprobe::put(symbol()));
        hit(times);
        assert_eq!((uprobe.hits(), counted(&hits)), (times, (times, times)), "{cell}");
        assert_eq!((foreign(), state(Kind::Entry)), (None, ProbeState::Active), "{cell}");
        uprobe.take_away();
        assert_eq!((bytes_at(site), foreign()), (active, None), "{cell}");
        hit(HITS);
        assert_eq!(counted(&hits), (times + HITS, times + HITS), "{cell}");
        let (paused, resumed) = (hits.pause(), hits.resume());
        assert_eq!((paused.patched(), paused.foreign().len(), resumed.foreign().len()), (2, 0, 0), "{cell}");
        if times == 0 {
            let left = hits.detach();
            assert_eq!((left.patched(), left.refused(), left.foreign().len()), (2, 0, 0), "{cell}: {left}");
        } else {
            // Paused, and then paused again, and left so.
            assert_eq!((hits.pause().foreign().len(), hits.pause().foreign().len()), (0, 0));
            let left = hits.detach();
            assert_eq!((left.unchanged(), left.refused(), left.foreign().len()), (2, 0, 0), "{cell}: {left}");
        }
        is_as_in_file();
    }
}

#[test]
fn a_uprobe_on_a_latent_site_is_left_alone() {
    let _turn = turn();
    let site = site_kept();
    if !has_uprobes() {
        return;
    }
    for times in [0, HITS] {
        let uprobe = Uprobe::put(site);
        // The exit is still attached.
        let hits = attach();
        assert_eq!((hits.report().patched(), hits.report().refused()), (1, 1), "{}", hits.report());
        hit(times);
        assert_eq!((uprobe.hits(), counted(&hits)), (times, (0, times)));
        let found = bytes_at(site);
        let first = if times > 0 && uprobe::writes_calls() { 0xe8 } else { 0xcc };
        assert_eq!(found[0], first, "{found:02x?}");
        let active = foreign().expect("foreign").0;
        assert_eq!((active[0], foreign().unwrap().1), (0xe9, found));
        is_told(&hits, found);
        uprobe.take_away();
        // The site is latent instead of active until the next operation.
        assert_eq!((bytes_at(site), foreign()), (NOP, Some((active, NOP))));
        is_told(&hits, NOP);
        assert_eq!((hits.pause().refused(), hits.resume().patched()), (0, 2));
        assert_eq!((bytes_at(site), foreign()), (active, None));
        hit(HITS);
        assert_eq!(counted(&hits), (HITS, times + HITS));
        assert_eq!(hits.detach().patched(), 2);
        is_as_in_file();
    }
}

#[test]
fn a_uprobe_that_leaves_an_active_site_torn_is_told_of() {
    let _turn = turn();
    let site = site_kept();
    if !has_uprobes() {
        return;
    }
    for times in [0, HITS] {
        let hits = attach();
        let active = bytes_at(site);
        hit(HITS);
        let uprobe = Uprobe::put(site);
        assert_eq!(foreign(), Some((active, [&[0xcc], &active[1..]].concat().try_into().unwrap())));
        // The kernel does what the file has there: hits of the entry are lost.
        hit(times);
        assert_eq!((uprobe.hits(), counted(&hits)), (times, (HITS, HITS + times)));
        uprobe.take_away();
        let torn = [&[0x0f], &active[1..]].concat().try_into().unwrap();
        let found = if times > 0 && uprobe::writes_calls() { NOP } else { torn };
        assert_eq!((bytes_at(site), foreign()), (found, Some((active, found))), "{times} hits");
        assert_eq!((state(Kind::Entry), state(Kind::Exit)), (ProbeState::Foreign, ProbeState::Active));
        is_told(&hits, found);
        let left = hits.detach();
        let (refused, patched) = if found == torn { (1, 1) } else { (0, 1) };
        assert_eq!((left.refused(), left.patched(), left.foreign().len()), (refused, patched, 1), "{left}");
        assert!(left.to_string().contains(&format!("found {found:02x?}")), "{left}");
        assert_eq!(bytes_at(site), found, "left as it is");
        if found == torn {
            assert!(left.to_string().contains("torn: a tracer (a uprobe)"), "{left}");
            assert_eq!(foreign(), Some((NOP, torn)));
            repair();
        }
        is_as_in_file();
    }
}

/// Writes one byte, as a debugger does.
fn poke(addr: usize, byte: u8) {
    use std::os::unix::fs::FileExt;
    let memory = std::fs::OpenOptions::new().write(true).open("/proc/self/mem").expect("/proc/self/mem");
    memory.write_all_at(&[byte], addr as u64).expect("written");
}

#[test]
fn a_debugger_s_breakpoint_is_left_alone() {
    let _turn = turn();
    let site = site_kept();
    // On a latent site.
    poke(site, 0xcc);
    let hits = attach();
    let found = bytes_at(site);
    assert_eq!((hits.report().patched(), hits.report().refused(), found[0]), (1, 1, 0xcc));
    is_told(&hits, found);
    assert_eq!((hits.pause().refused(), hits.pause().refused()), (1, 1));
    poke(site, NOP[0]);
    assert_eq!((hits.resume().patched(), foreign()), (2, None));
    hit(HITS);
    assert_eq!(counted(&hits), (HITS, HITS));
    // On an active one.
    let active = bytes_at(site);
    poke(site, 0xcc);
    let found = bytes_at(site);
    assert_eq!((foreign(), state(Kind::Exit)), (Some((active, found)), ProbeState::Active));
    is_told(&hits, found);
    let held = select("patching::uprobes::**::work").unwrap().hold().unwrap();
    assert_eq!((held.report().patched(), held.report().refused()), (1, 1));
    poke(site, active[0]);
    // Held, but active.
    assert_eq!((foreign(), state(Kind::Exit)), (Some((NOP, active)), ProbeState::Held));
    let released = held.release();
    assert_eq!((released.patched(), released.unchanged(), released.foreign().len()), (1, 1, 1), "{released}");
    assert_eq!(foreign(), None);
    hit(HITS);
    assert_eq!((counted(&hits), hits.detach().patched()), ((2 * HITS, 2 * HITS), 2));
    is_as_in_file();
}
