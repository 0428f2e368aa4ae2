//! Plays one scenario with several numbers of executors and ways to write text.

use std::time::{Duration, Instant};

use probe_runtime::patch::{OpenText, TextPolicy};
use probe_tests::whole;

use super::NAMES;
use super::arena::Arena;
use super::child::{soak_seconds, soak_toggles};
use super::executors::Seen;
use super::random::Random;

/// Toggles of all scenarios together in a whole run.
const WHOLE: u64 = 5_290_000;
/// The toggles that the plays of any other run have a part of.
const SLICE: u64 = WHOLE / 16;
/// The least toggles of a play, if its scenario has this many: some for each instruction.
const LEAST: u64 = 300;

/// The plays of each scenario: executors, policy, and divisor of the scenario's toggles. Policies
/// that need system calls for each patch have fewer toggles.
const PLAYS: [(usize, TextPolicy, u64); 6] = [
    (2, TextPolicy::Open, 4),
    (16, TextPolicy::Open, 4),
    (4, TextPolicy::Sealed, 32),
    (8, TextPolicy::Alias, 32),
    (4, TextPolicy::Open, 4),
    (8, TextPolicy::Open, 4),
];
/// The plays of a scenario in a slice. Waiting for executors takes most of a play's time, whatever
/// the number of toggles. Scenarios take turns with the first four plays, so that all together have
/// each policy.
const PLAYS_OF_SLICE: usize = if cfg!(debug_assertions) { 1 } else { 2 };

/// One play.
pub struct Play {
    pub executors: usize,
    /// The way to write text.
    pub text: TextPolicy,
    /// The least number of toggles.
    pub toggles: u64,
    pub random: Random,
}

impl Play {
    /// Keeps the arena's text open if the policy needs it.
    pub fn open(&self, arena: &Arena) -> Option<OpenText> {
        (self.text == TextPolicy::Open).then(|| OpenText::new(arena.range()).unwrap())
    }
}

/// The result of a play.
#[derive(Default)]
pub struct Done {
    pub toggles: u64,
    pub seen: Vec<Seen>,
    /// Further counts, by name.
    pub counts: Vec<(&'static str, u64)>,
}

/// Plays a scenario that has `part` of the toggles of a whole run.
pub fn play(name: &str, part: u64, seed: u64, scenario: impl Fn(Play) -> Done) {
    let is_soak = soak_seconds() > 0 || soak_toggles() > 0;
    let kinds = if is_soak || whole::is_asked_for() { &PLAYS[..] } else { of_slice(name) };
    let least = if whole::is_asked_for() { WHOLE } else { SLICE };
    let asked = u128::from(part) * u128::from(soak_toggles().max(least)) / u128::from(WHOLE);
    let asked = u64::try_from(asked).expect("fewer");
    let (began, lasts) =
        (Instant::now(), Duration::from_secs(soak_seconds()) / NAMES.len().try_into().expect("few"));
    let (mut all, mut plays) = (Done::default(), 0);
    while plays == 0 || began.elapsed() < lasts {
        for &(executors, text, part) in kinds {
            let toggles = (asked / part).max(LEAST.min(asked));
            let done = scenario(Play { executors, text, toggles, random: Random::new(seed, plays) });
            assert!(done.toggles >= toggles, "{} of {toggles} toggles", done.toggles);
            all.add(done);
            plays += 1;
        }
    }
    // libtest has begun a line.
    print!("\n{name}: {} toggles in {:.1?}", all.toggles, began.elapsed());
    all.counts.iter().for_each(|(what, count)| print!(", {count} {what}"));
    let rounds: u64 = all.seen.iter().map(|seen| seen.rounds).sum();
    println!("; executed {rounds} times");
}

/// The plays of a scenario in a slice.
fn of_slice(name: &str) -> &'static [(usize, TextPolicy, u64)] {
    let turn = NAMES.iter().position(|it| *it == name).unwrap_or(0);
    let first = turn * PLAYS_OF_SLICE % 4;
    &PLAYS[first..][..PLAYS_OF_SLICE]
}

impl Done {
    /// Checks that executors have seen each of these effects of a register, and counts them.
    pub fn add_seen(&mut self, function: usize, whats: &[&'static str], counts: &[u64]) {
        for (what, count) in whats.iter().zip(counts) {
            assert_ne!(*count, 0, "nobody has seen function {function} {what}");
            self.count(what, *count);
        }
    }

    /// Adds a count.
    pub fn count(&mut self, what: &'static str, count: u64) {
        match self.counts.iter_mut().find(|(known, _)| *known == what) {
            Some((_, sum)) => *sum += count,
            None => self.counts.push((what, count)),
        }
    }

    fn add(&mut self, other: Self) {
        self.toggles += other.toggles;
        self.seen.extend(other.seen);
        other.counts.into_iter().for_each(|(what, count)| self.count(what, count));
    }
}
