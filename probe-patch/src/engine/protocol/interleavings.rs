//! Runs the state machine on several threads. Under the model checker, it runs every interleaving:
//! `RUSTFLAGS='--cfg loom' cargo test --release -p probe-patch --lib interleavings`. Otherwise,
//! and under Miri, it runs those that happen to occur.
//!
//! The world is one instruction of two parts, and an executor with its own, stale, copy of each. A
//! barrier updates the copies; otherwise they may stay stale.

use super::plan::Plan;
use super::state_machine::sync::{Arc, Mutex, thread};
use super::state_machine::{Backend, LastStep, Method, NotStarted, Phase, Progress, Ticket, WordEntry};
use crate::arch::INT3;
use crate::engine::bytes::Bytes;

const OLD: [u8; 2] = [1, 1];
const NEW: [u8; 2] = [2, 2];
const THIRD: [u8; 2] = [3, 3];
const METHOD: Method = Method::Barrier;

/// Memory, the executor's copy of it, and the number of barriers so far.
#[derive(Clone, Copy)]
struct WorldState {
    memory: [u8; 2],
    copy: [u8; 2],
    barriers: u64,
    /// The number of barriers when `int3` was written.
    locked: u64,
}

struct World(Mutex<WorldState>);

impl World {
    fn new() -> Self {
        Self(Mutex::new(WorldState { memory: OLD, copy: OLD, barriers: 0, locked: 0 }))
    }

    fn with<R>(&self, act: impl FnOnce(&mut WorldState) -> R) -> R {
        act(&mut self.0.lock().unwrap())
    }

    /// Updates one part of the executor's copy, and executes.
    fn execute(&self, part: usize) {
        self.with(|state| {
            state.copy[part] = state.memory[part];
            let is_whole = [OLD, NEW, THIRD].contains(&state.copy);
            assert!(is_whole || state.copy[0] == INT3, "executed {:?}", state.copy);
        });
    }
}

impl Backend for World {
    fn lock(&self, _method: Method, plan: &Plan) -> Result<(), NotStarted> {
        self.with(|state| {
            if state.memory[..] != plan.expected()[..] {
                return Err(NotStarted::Found);
            }
            state.memory[0] = INT3;
            state.locked = state.barriers;
            Ok(())
        })
    }

    fn unlock(&self, _method: Method, _plan: &Plan) -> bool {
        unreachable!("only after a fork");
    }

    fn take_back(&self, _method: Method, _plan: &Plan) -> bool {
        // Another thread was faster, and has made the patch.
        false
    }

    fn write_rest(&self, _method: Method, plan: &Plan) -> bool {
        self.with(|state| {
            if state.memory[0] == INT3 {
                assert!(state.barriers > state.locked, "the rest before every thread saw the lock");
                state.memory[1] = plan.value()[1];
            }
        });
        true
    }

    fn write_first(&self, _method: Method, plan: &Plan) -> LastStep {
        self.with(|state| {
            assert_eq!(state.memory[1], plan.value()[1]);
            if state.memory[0] == INT3 {
                state.memory[0] = plan.value()[0];
            }
            if state.memory[0] == plan.value()[0] { LastStep::Written } else { LastStep::Gone }
        })
    }

    fn stamp(&self, _method: Method) -> u64 {
        self.with(|state| state.barriers)
    }

    fn has_passed(&self, _method: Method, stamp: u64) -> bool {
        self.with(|state| {
            if state.barriers <= stamp {
                state.copy = state.memory;
                state.barriers += 1;
            }
            true
        })
    }
}

fn plan(from: [u8; 2], to: [u8; 2]) -> Plan {
    Plan::new(7, Bytes::from(from), Bytes::from(to)).unwrap()
}

fn finish(entry: &WordEntry, world: &World, ticket: Ticket) {
    while !matches!(entry.step(ticket, world), Progress::Over { is_whole: true }) {
        thread::yield_now();
    }
}

#[cfg(loom)]
fn check(test: impl Fn(Arc<(WordEntry, World)>) + Sync + Send + 'static) {
    check_with(2, test);
}

/// Tries up to this number of switches away from a thread that could continue.
#[cfg(loom)]
fn check_with(switches: usize, test: impl Fn(Arc<(WordEntry, World)>) + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(switches);
    builder.check(move || test(Arc::new((WordEntry::new(), World::new()))));
}

#[cfg(not(loom))]
fn check_with(_switches: usize, test: impl Fn(Arc<(WordEntry, World)>)) {
    check(test);
}

#[cfg(not(loom))]
fn check(test: impl Fn(Arc<(WordEntry, World)>)) {
    (0..if cfg!(miri) { 10 } else { 500 }).for_each(|_| test(Arc::new((WordEntry::new(), World::new()))));
}

#[test]
fn an_executor_sees_whole_instructions_whoever_takes_the_steps() {
    check(|shared| {
        let (entry, world) = &*shared;
        let ticket = entry.start(&plan(OLD, NEW), METHOD, 1, world).unwrap();
        let helper = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || finish(&shared.0, &shared.1, ticket))
        };
        let executor = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                shared.1.execute(1);
                shared.1.execute(0);
                shared.1.execute(1);
            })
        };
        finish(entry, world, ticket);
        world.with(|state| assert_eq!(state.memory, NEW));
        helper.join().unwrap();
        executor.join().unwrap();
        world.with(|state| assert_eq!(state.memory, NEW));
    });
}

#[test]
fn a_patch_starts_when_all_have_left_the_last_one() {
    check(|shared| {
        let (entry, world) = &*shared;
        let first = entry.start(&plan(OLD, NEW), METHOD, 1, world).unwrap();
        let helper = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let _ = shared.0.step(first, &shared.1);
                let _ = shared.0.step(first, &shared.1);
            })
        };
        let mut tries = 0;
        let second = loop {
            let _ = entry.step(first, world);
            match entry.start(&plan(NEW, THIRD), METHOD, 1, world) {
                Ok(ticket) => break ticket,
                Err(problem) => assert_eq!(problem, NotStarted::Busy),
            }
            tries += 1;
            assert!(tries < 16 || cfg!(not(loom)));
            thread::yield_now();
        };
        finish(entry, world, second);
        helper.join().unwrap();
        world.with(|state| assert_eq!(state.memory, THIRD));
        assert_eq!(entry.progress(second), Progress::Over { is_whole: true });
    });
}

#[test]
fn of_two_patches_at_least_one_wins() {
    check(|shared| {
        let patch = |shared: &Arc<(WordEntry, World)>, to| {
            let (entry, world) = &**shared;
            let started = entry.start(&plan(OLD, to), METHOD, 1, world);
            started.map(|ticket| finish(entry, world, ticket)).is_ok()
        };
        let other = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || patch(&shared, THIRD))
        };
        let mine = patch(&shared, NEW);
        let theirs = other.join().unwrap();
        // The second patch no longer finds OLD, or finds the first patch under way.
        assert!(mine ^ theirs);
        let wanted = if mine { NEW } else { THIRD };
        shared.1.with(|state| assert_eq!(state.memory, wanted));
    });
}

/// A signal handler on the owner's thread runs into the `int3` and ends the patch. Another thread
/// then begins the next patch. All this happens before the owner has noted that its `int3` is
/// written. (Another thread plays the handler.) That takes one switch away from the owner; the
/// whole test tries two.
#[test]
fn the_next_patch_does_not_begin_under_an_owner_that_was_interrupted() {
    let is_whole = std::env::var("PROBE_TEST_WHOLE").is_ok_and(|it| it == "1");
    check_with(if is_whole { 2 } else { 1 }, |shared| {
        let (entry, world) = &*shared;
        let handler = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let (entry, world) = &*shared;
                if entry.phase() != Phase::Locking || world.with(|state| state.memory[0]) != INT3 {
                    return false;
                }
                let ticket = entry.ticket();
                entry.note_lock_for_owner(ticket, world);
                finish_steps(entry, world, ticket);
                entry.start(&plan(NEW, THIRD), METHOD, 2, world).is_ok_and(|ticket| {
                    finish(entry, world, ticket);
                    true
                })
            })
        };
        let ticket = entry.start(&plan(OLD, NEW), METHOD, 1, world).unwrap();
        finish(entry, world, ticket);
        let has_next = handler.join().unwrap();
        world.with(|state| assert_eq!(state.memory, if has_next { THIRD } else { NEW }));
    });
}

/// Takes the steps of a patch whose owner has not left yet.
fn finish_steps(entry: &WordEntry, world: &World, ticket: Ticket) {
    while entry.phase() != Phase::Idle && entry.ticket() == ticket {
        entry.step(ticket, world);
        thread::yield_now();
    }
}
