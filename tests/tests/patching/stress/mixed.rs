//! `wordpatch` and `callpatch` side by side: two instructions that share a word, each with a
//! patcher of its own.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

use probe_runtime::patch::call::CallOptions;
use probe_runtime::patch::word::WordOptions;

use super::arena::{Arena, Site};
use super::call::{self, CallSite};
use super::code::{Boundary, Piece};
use super::executors::{Executors, while_executed};
use super::forms::Form;
use super::scenario::{Done, Play};
use super::tally::Register;

/// Two patchers, of words and of calls, at each function; two functions at a time.
const PAIRS: usize = 2;
const PATCHERS: usize = 2 * PAIRS;

/// Neighbours.
#[derive(Clone)]
struct Pair {
    word: Site,
    call: CallSite,
}

/// Every length before a call and behind one, with a boundary at each split of the call, or in the
/// middle of the other.
fn arena() -> (Arena, Vec<Pair>) {
    let mut pairs = Vec::new();
    let arena = Arena::new(1 << 19, |text| {
        let mut functions = Vec::new();
        for (len, is_call_first) in (1..=8).flat_map(|len| [(len, false), (len, true)]) {
            for split in 0..=4 {
                let kind = if (len + split) % 3 == 0 { Piece::Jump } else { Piece::Call };
                let form = Form::of_len(len);
                let (word, call) = if is_call_first { (1, 0) } else { (0, 1) };
                let pieces =
                    if is_call_first { [kind, Piece::Word(form)] } else { [Piece::Word(form), kind] };
                let boundary = Boundary::ALL[(len + split) % 3];
                let function = match split {
                    0 => text.function(&pieces, word, len / 2, boundary),
                    _ => text.function(&pieces, call, split, boundary),
                };
                let (number, addr) = (functions.len(), function.pieces[word]);
                pairs.push(Pair {
                    word: Site { function: number, addr, form, split, boundary },
                    call: CallSite::new(number, &function, call, kind),
                });
                functions.push(function);
            }
        }
        functions
    });
    (arena, pairs)
}

/// Each patcher toggles its instruction of a pair this many times, and continues until the other is
/// done, too.
pub fn mixed(play: &Play) -> Done {
    let (mut arena, pairs) = arena();
    let _open = play.open(&arena);
    let options = WordOptions::new().text_policy(play.text);
    let one = play.toggles / pairs.len() as u64 + 1;
    let is_over = [const { AtomicBool::new(false) }; PAIRS];
    let barriers = [(); PAIRS].map(|()| Barrier::new(2));
    let (results, seen) = while_executed(&arena.functions, play.executors, PATCHERS, |patcher, executors| {
        let (number, is_word) = (patcher / 2, patcher % 2 == 0);
        let own = pairs.iter().skip(number).step_by(PAIRS).cloned();
        let side_by_side = |mut pair: Pair| {
            executors.focus(patcher, pair.word.function);
            barriers[number].wait();
            executors.settle();
            let toggles = if is_word {
                let toggles = toggle_word(&pair.word, options, (one / 8 + 1) | 1, executors);
                is_over[number].store(true, Ordering::Relaxed);
                toggles
            } else {
                toggle_call(&mut pair.call, call::options(play), one, &is_over[number], play, executors)
            };
            barriers[number].wait();
            executors.settle();
            barriers[number].wait();
            is_over[number].store(false, Ordering::Relaxed);
            toggles
        };
        own.map(side_by_side).sum::<u64>()
    });
    let mut done = Done::default();
    for (patcher, toggles) in results.into_iter().enumerate() {
        done.toggles += toggles;
        done.count(if patcher % 2 == 0 { "of words" } else { "of calls" }, toggles);
    }
    for Pair { word, call } in &pairs {
        arena.expect(word.addr, &word.form.new);
        call.check(&arena);
        let effects = arena.execute(word.function);
        assert_eq!(effects.seen(Register::Rax), [0, 1, 0], "{word}");
        assert_eq!(effects.seen(Register::Rcx), call.effect(), "{call}");
        let seen = seen[word.function];
        done.add_seen(word.function, &["old", "new"], &seen.rax);
        call.add_seen(&mut done, seen.rcx);
    }
    arena.assert_as_expected();
    done.seen = seen;
    done
}

fn toggle_word(site: &Site, options: WordOptions, times: u64, executors: &Executors<'_>) -> u64 {
    for number in 0..times {
        let (from, to) = (site.bytes(number % 2 != 0), site.bytes(number % 2 == 0));
        // SAFETY: an instruction of the arena, which outlives the patch; it may be either.
        assert!(unsafe { options.replace(site.addr, from, to) }.unwrap(), "{site}");
        if number % 256 == 0 {
            executors.settle();
        }
    }
    times
}

fn toggle_call(
    site: &mut CallSite,
    options: CallOptions,
    times: u64,
    is_over: &AtomicBool,
    play: &Play,
    executors: &Executors<'_>,
) -> u64 {
    let mut random = play.random.clone();
    let mut toggles = site.show_all(options, || executors.settle());
    while toggles < times || !is_over.load(Ordering::Relaxed) {
        site.toggle(options, &mut random);
        toggles += 1;
    }
    toggles + u64::from(site.end(options))
}
