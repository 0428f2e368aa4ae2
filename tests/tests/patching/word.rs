//! wordpatch, one thing at a time: every length at every place, refusals, threads that run into a
//! patch that is under way. A process of its own: it installs a handler for `SIGTRAP`.
#![cfg(not(probe_portable))]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use probe_runtime::patch::word::{self, Ticks, Wait, WordOptions, finish_patch, is_straddler, start_patch};
use probe_runtime::patch::{Bytes, OpenText, PatchError, TextPolicy};
use probe_tests::code::Code;
use probe_tests::stops::Stops;
// Traps are counted for the whole process.
use probe_tests::turn::turn;

const ONE: Bytes5 = [0xb8, 1, 0, 0, 0];
const TWO: Bytes5 = [0xb8, 2, 0, 0, 0];
type Bytes5 = [u8; 5];

/// At every place in an aligned word: one in the middle of a cache line, the last one of a line,
/// the last one of a page.
fn offsets() -> impl Iterator<Item = usize> {
    (0..8).chain(56..64).chain(4_088..4_096)
}

/// `mov eax, imm32; ret` at an offset.
fn function(code: &mut Code, offset: usize) -> (usize, extern "C" fn() -> u32) {
    let addr = code.place(offset, &[&ONE[..], &[0xc3]].concat());
    // SAFETY: the code that was just written there.
    (addr, unsafe { std::mem::transmute::<usize, extern "C" fn() -> u32>(addr) })
}

fn every_way() -> Vec<WordOptions> {
    let waits = [Wait::Barrier, Wait::Tmax(Ticks(100_000))];
    let ways = waits
        .into_iter()
        .flat_map(|wait| [false, true].map(|strict| WordOptions::new().wait(wait).strict(strict)));
    ways.chain([WordOptions::new().text_policy(TextPolicy::Alias)]).collect()
}

#[test]
fn every_length_at_every_place_is_replaced_whole() {
    let _turn = turn();
    let mut code = Code::new();
    for (place, len) in offsets().flat_map(|place| (1..=8).map(move |len| (place, len))) {
        let before: Vec<u8> = (0x10..).take(24).collect();
        let offset = place % 8;
        let base = code.place(place - offset, &before);
        let value: Vec<u8> = (0x80..).take(len).collect();
        for options in every_way() {
            for (bytes, wanted) in
                [(&value[..], &value[..]), (&before[offset..offset + len], &before[offset..])]
            {
                // SAFETY: nobody executes these bytes.
                unsafe { options.patch(base + offset, Bytes::new(bytes).unwrap()) }.unwrap();
                let found = code.bytes(base, 24);
                assert_eq!(found[..offset], before[..offset]);
                assert_eq!(found[offset..offset + len], wanted[..len]);
                assert_eq!(found[offset + len..], before[offset + len..]);
            }
        }
    }
}

#[test]
fn who_runs_into_its_own_patch_finishes_it() {
    let _turn = turn();
    let mut code = Code::new();
    let ways = [WordOptions::new().strict(true), WordOptions::new().text_policy(TextPolicy::Alias)];
    for (offset, options) in offsets().flat_map(|offset| ways.map(|way| (offset, way))) {
        let (addr, call) = function(&mut code, offset);
        assert_eq!(call(), 1);
        let before = word::traps();
        // SAFETY: one instruction, for another.
        let mut patch = unsafe { options.start(addr, TWO.into()) }.unwrap();
        assert_eq!(code.bytes(addr, 1), [0xcc]);
        assert_eq!(call(), 2);
        assert_eq!(word::traps(), before + 1);
        assert!(patch.finish());
        patch.wait().unwrap();
        assert_eq!(code.bytes(addr, 5), TWO);
    }
}

#[test]
fn a_patch_is_busy_until_it_is_over() {
    let _turn = turn();
    let mut code = Code::new();
    let (addr, call) = function(&mut code, 5);
    // SAFETY: one instruction, for others.
    let patch = |value: Bytes5| unsafe { start_patch(addr, value.into()) };
    let mut first = patch(TWO).unwrap();
    assert!(matches!(patch(ONE), Err(PatchError::Busy { addr: at }) if at == addr));
    assert!(!finish_patch(&mut first), "the rest");
    assert_eq!(code.bytes(addr, 5), [0xcc, 2, 0, 0, 0]);
    assert!(matches!(patch(ONE), Err(PatchError::Busy { .. })));
    assert!(finish_patch(&mut first), "the first byte");
    assert!(finish_patch(&mut first));
    assert_eq!(call(), 2);
    drop(patch(ONE).unwrap());
    assert_eq!(code.bytes(addr, 5), ONE);
    assert_eq!(call(), 1);
}

#[test]
fn a_thousand_are_under_way_at_once() {
    let _turn = turn();
    let mut code = Code::new();
    let functions: Vec<_> = (0..1_000).map(|at| function(&mut code, 60 + at % 4)).collect();
    let _text = OpenText::new(code.range()).unwrap();
    let options = WordOptions::new().text_policy(TextPolicy::Open);
    // SAFETY: one instruction each, for another.
    let mut patches: Vec<_> =
        functions.iter().map(|(addr, _)| unsafe { options.start(*addr, TWO.into()) }.unwrap()).collect();
    assert_eq!(patches.iter_mut().filter_map(|patch| patch.finish().then_some(())).count(), 0);
    // Another thread ends them.
    let patches = thread::spawn(move || {
        assert_eq!(patches.iter_mut().filter_map(|patch| patch.finish().then_some(())).count(), 1_000);
        patches
    });
    drop(patches.join().unwrap());
    assert!(functions.iter().all(|(addr, call)| code.bytes(*addr, 5) == TWO && call() == 2));
}

#[test]
fn who_writes_over_a_patch_under_way_is_reported() {
    let _turn = turn();
    let mut code = Code::new();
    let (addr, _) = function(&mut code, 62);
    // SAFETY: one instruction, for another; nobody executes it here.
    let patch = unsafe { start_patch(addr, TWO.into()) }.unwrap();
    // The patch holds its text open.
    code.write_open(addr, 0xbb);
    let error = patch.wait().unwrap_err();
    assert!(
        matches!(error, PatchError::Foreign { expected, found, .. }
            if *expected == ONE && found[0] == 0xbb),
        "{error}"
    );
    // And the next one continues from there.
    // SAFETY: as above.
    unsafe { word::patch(addr, ONE.into()) }.unwrap();
    assert_eq!(code.bytes(addr, 5), ONE);
}

#[test]
fn a_forgotten_patch_is_ended_by_who_arrives() {
    let _turn = turn();
    let mut code = Code::new();
    let (addr, call) = function(&mut code, 6);
    // SAFETY: one instruction, for another.
    std::mem::forget(unsafe { start_patch(addr, TWO.into()) }.unwrap());
    let callers: Vec<_> = (0..4).map(|_| thread::spawn(move || call())).collect();
    assert!(callers.into_iter().all(|caller| caller.join().unwrap() == 2));
    assert_eq!(code.bytes(addr, 5), TWO);
    // Its text stays open, so it must stay mapped.
    std::mem::forget(code);
}

#[test]
fn what_is_not_expected_is_left_alone() {
    let _turn = turn();
    let mut code = Code::new();
    for (offset, options) in
        offsets().flat_map(|offset| every_way().into_iter().map(move |way| (offset, way)))
    {
        let (addr, _) = function(&mut code, offset);
        // SAFETY: nobody executes it here.
        let replace = |expected: Bytes5, value: &[u8]| unsafe {
            options.replace(addr, expected.into(), Bytes::new(value).unwrap())
        };
        // Another tail, another head, an instruction of another length, a trap.
        let found = Bytes::from(ONE);
        for expected in [[0xb8, 1, 0, 0, 9], [0xb9, 1, 0, 0, 0]] {
            let error = replace(expected, &TWO).unwrap_err();
            assert!(
                matches!(error, PatchError::Foreign { addr: at, expected: e, found: f }
                    if at == addr && *e == expected && f == found),
                "{error}"
            );
        }
        assert!(matches!(replace(ONE, &[0x90]), Err(PatchError::Length { .. })));
        assert!(matches!(replace(ONE, &[0xcc, 0, 0, 0, 0]), Err(PatchError::Trap { .. })));
        // A breakpoint.
        code.write(addr, 0xcc);
        let error = replace(ONE, &TWO).unwrap_err();
        assert!(matches!(error, PatchError::Foreign { found, .. } if found[0] == 0xcc), "{error}");
        // SAFETY: as above.
        let error = unsafe { options.patch(addr, TWO.into()) }.unwrap_err();
        assert!(matches!(error, PatchError::Foreign { .. }), "{error}");
        assert_eq!(code.bytes(addr, 5), [0xcc, 1, 0, 0, 0]);
        code.write(addr, ONE[0]);
        // As good as new, and then as wanted.
        assert!(replace(ONE, &TWO).unwrap());
        assert!(!replace(ONE, &TWO).unwrap());
        assert_eq!(code.bytes(addr, 5), TWO);
    }
}

#[test]
fn of_two_patchers_one_wins_and_executors_see_both() {
    let _turn = turn();
    let mut code = Code::new();
    let (addr, call) = function(&mut code, 4_094);
    assert!(is_straddler(addr, 5));
    let _text = OpenText::new(code.range()).unwrap();
    let options = WordOptions::new().text_policy(TextPolicy::Open);
    // SAFETY: one instruction, for another.
    let patch = |value: Bytes5| unsafe { options.patch(addr, value.into()) };
    let (stop, won, busy) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let seen = [const { [const { AtomicU64::new(0) }; 2] }; 2];
    thread::scope(|scope| {
        let _stops = Stops(&stop);
        for seen in &seen {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    seen[call() as usize - 1].fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let patcher = || {
            for round in 0..10_000 {
                match patch(if round % 2 == 0 { TWO } else { ONE }) {
                    Ok(()) => won.fetch_add(1, Ordering::Relaxed),
                    Err(PatchError::Busy { .. }) => busy.fetch_add(1, Ordering::Relaxed),
                    Err(error) => panic!("{error}"),
                };
            }
        };
        let patchers = [scope.spawn(patcher), scope.spawn(patcher)];
        patchers.into_iter().for_each(|patcher| patcher.join().unwrap());
        for (value, number) in [(ONE, 0), (TWO, 1)] {
            patch(value).unwrap();
            assert_eq!(call(), number + 1);
            let before = seen.each_ref().map(|seen| seen[number as usize].load(Ordering::Relaxed));
            while seen
                .iter()
                .zip(before)
                .any(|(seen, before)| seen[number as usize].load(Ordering::Relaxed) == before)
            {
                thread::yield_now();
            }
        }
    });
    let (won, busy) = (won.into_inner(), busy.into_inner());
    assert_eq!(won + busy, 20_000);
    assert!(won > 0);
    assert_eq!(code.bytes(addr, 5), TWO);
}

#[test]
fn what_is_no_text_is_an_error() {
    let code = Code::new();
    // SAFETY: a page behind the code, which nobody uses.
    let page = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            4096,
            libc::PROT_NONE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    let cases = [
        (8, "nothing is mapped at 0x8".to_owned()),
        (page as usize, format!("the page at {page:?} may not")),
    ];
    for (text, (addr, problem)) in [TextPolicy::Sealed, TextPolicy::Alias]
        .into_iter()
        .flat_map(|text| cases.clone().map(|case| (text, case)))
    {
        // SAFETY: refused before anything is looked at.
        let error = unsafe { WordOptions::new().text_policy(text).patch(addr, TWO.into()) }.unwrap_err();
        assert!(matches!(error, PatchError::Text { addr: at, .. } if at == addr), "{error}");
        assert!(error.to_string().contains(&problem), "{error}");
    }
    drop(code);
}
