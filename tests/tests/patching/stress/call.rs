//! `callpatch`: switches CALLs and JMPs at every split on, off, and between targets, without waits.

use std::fmt;

use probe_runtime::patch::PatchError;
use probe_runtime::patch::call::CallOptions;

use super::arena::Arena;
use super::code::{Boundary, Function, Piece, distance};
use super::executors::while_executed;
use super::random::Random;
use super::scenario::{Done, Play};
use super::tally::Register;

/// The state of a site.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Off,
    /// Leads to the target of this index.
    On(usize),
}

/// A CALL or a JMP, and its state.
#[derive(Clone)]
pub struct CallSite {
    pub function: usize,
    pub addr: usize,
    opcode: u8,
    /// The number of bytes before the boundary of two words; 0 if the site lies in one.
    split: usize,
    /// One or two.
    targets: Vec<usize>,
    state: State,
    /// The last three bytes, which some splits never change.
    tail: [u8; 3],
}

impl fmt::Display for CallSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:#x} at {:#x}, {}|{}, {:?}",
            self.opcode,
            self.addr,
            self.split,
            5 - self.split,
            self.state
        )
    }
}

const CALL: u8 = 0xe8;
const JMP: u8 = 0xe9;
const NOP5: [u8; 5] = [0x0f, 0x1f, 0x44, 0x00, 0x08];

impl CallSite {
    /// Creates the site of a function's piece.
    pub fn new(number: usize, function: &Function, piece: usize, kind: Piece) -> Self {
        let addr = function.pieces[piece];
        let opcode = if matches!(kind, Piece::Jump) { JMP } else { CALL };
        let split = if addr % 8 <= 3 { 0 } else { 8 - addr % 8 };
        let [_, a, b, c] = distance(addr + 5, function.targets[0]);
        let mut targets = function.targets.to_vec();
        // If the split keeps the tail, drop the targets with another tail.
        targets.retain(|target| split < 2 || distance(addr + 5, *target)[1..] == [a, b, c]);
        Self { function: number, addr, opcode, split, targets, state: State::On(0), tail: [a, b, c] }
    }

    /// Switches to each other state, and calls `settle` in each. Returns the number of toggles.
    pub fn show_all(&mut self, options: CallOptions, settle: impl Fn()) -> u64 {
        let on = (0..self.targets.len()).map(State::On);
        let all: Vec<_> = [State::Off].into_iter().chain(on).filter(|state| *state != self.state).collect();
        for state in &all {
            settle();
            self.state = *state;
            assert!(self.switch(options).unwrap(), "{self}: was so");
        }
        settle();
        all.len() as u64
    }

    /// Switches to another state at random; sometimes checks that a second switch changes nothing.
    pub fn toggle(&mut self, options: CallOptions, random: &mut Random) {
        let states = 1 + self.targets.len();
        let now = match self.state {
            State::Off => 0,
            State::On(target) => 1 + target,
        };
        // Any of the others.
        self.state = match (now + 1 + random.below(states - 1)) % states {
            0 => State::Off,
            on => State::On(on - 1),
        };
        assert!(self.switch(options).unwrap(), "{self}: was so");
        if random.below(64) == 0 {
            assert!(!self.switch(options).unwrap(), "{self}: was not so");
        }
    }

    /// Switches to the first target at the end. Returns whether that changes the state.
    pub fn end(&mut self, options: CallOptions) -> bool {
        let was = std::mem::replace(&mut self.state, State::On(0));
        assert_eq!(self.switch(options).unwrap(), was != self.state, "{self}");
        was != self.state
    }

    fn switch(&self, options: CallOptions) -> Result<bool, PatchError> {
        // SAFETY: a CALL or JMP of the arena, which outlives this; executed anywhere in its
        // function, its targets come back.
        unsafe {
            match (self.state, self.opcode) {
                (State::Off, _) => options.deactivate_call(self.addr),
                (State::On(target), CALL) => options.activate_call(self.addr, self.targets[target]),
                (State::On(target), _) => options.activate_jump(self.addr, self.targets[target]),
            }
        }
    }

    /// Checks that the bytes are those of the state, and returns them.
    pub fn check(&self, arena: &Arena) -> [u8; 5] {
        let found: [u8; 5] = arena.bytes(self.addr, 5).try_into().unwrap();
        let with = |[a, b, c, d]: [u8; 4]| [self.opcode, a, b, c, d];
        let [a, b, c] = self.tail;
        let expected = match (self.state, self.split) {
            (State::On(target), _) => with(distance(self.addr + 5, self.targets[target])),
            (State::Off, 0) => NOP5,
            (State::Off, 1) if self.opcode == JMP => with([0; 4]),
            (State::Off, 1) => {
                let distance = i32::from_le_bytes([found[1], found[2], found[3], found[4]]);
                let ret = (self.addr + 5).wrapping_add_signed(isize::try_from(distance).unwrap());
                // SAFETY: it was just executed.
                assert_eq!(unsafe { *(ret as *const u8) }, 0xc3, "{self}: calls {ret:#x}");
                [CALL, found[1], found[2], found[3], found[4]]
            }
            (State::Off, _) => [0xeb, 0x03, a, b, c],
        };
        assert_eq!(found, expected, "{self}");
        found
    }

    /// Returns the counts that one execution of the function must have.
    pub fn effect(&self) -> [u64; 3] {
        match self.state {
            State::Off => [1, 0, 0],
            State::On(0) => [0, 1, 0],
            State::On(_) => [0, 0, 1],
        }
    }

    /// Adds the effects that executors have seen of the site; panics if one is missing.
    pub fn add_seen(&self, done: &mut Done, seen: [u64; 3]) {
        let whats = &["off", "on", "on another target"][..=self.targets.len()];
        done.add_seen(self.function, whats, &seen);
    }
}

/// CALLs and JMPs with every split at every boundary, and without a split.
fn arena() -> (Arena, Vec<CallSite>) {
    let mut sites = Vec::new();
    let arena = Arena::new(1 << 18, |text| {
        let splits = (1..=4).flat_map(|split| Boundary::ALL.map(|boundary| (split, boundary)));
        let splits = splits.chain([(0, Boundary::None)]);
        let all = splits
            .flat_map(|(split, boundary)| [Piece::Call, Piece::Jump].map(|kind| (kind, split, boundary)));
        all.enumerate()
            .map(|(number, (kind, split, boundary))| {
                let function = text.function(&[kind], 0, split, boundary);
                sites.push(CallSite::new(number, &function, 0, kind));
                function
            })
            .collect()
    });
    (arena, sites)
}

/// The way in which a play switches calls.
pub fn options(play: &Play) -> CallOptions {
    CallOptions::new().text_policy(play.text)
}

/// Toggles one site after the other.
pub fn calls(play: &Play) -> Done {
    let (mut arena, mut sites) = arena();
    assert!(sites.iter().any(|site| site.split >= 2 && site.targets.len() == 2));
    play.random.clone().shuffle(&mut sites);
    let _open = play.open(&arena);
    let options = options(play);
    let one = play.toggles / sites.len() as u64 + 1;
    let (results, seen) = while_executed(&arena.functions, play.executors, 1, |_, executors| {
        let (mut sites, mut random) = (sites.clone(), play.random.clone());
        let mut toggles = 0;
        for site in &mut sites {
            executors.focus(0, site.function);
            toggles += one + site.show_all(options, || executors.settle());
            for number in 0..one {
                site.toggle(options, &mut random);
                if number % 4096 == 0 {
                    executors.settle();
                }
            }
            executors.settle();
        }
        (toggles, sites)
    });
    let mut done = Done::default();
    for (toggles, sites) in results {
        done.toggles += toggles;
        for site in sites {
            let bytes = site.check(&arena);
            arena.expect(site.addr, &bytes);
            assert_eq!(arena.execute(site.function).seen(Register::Rcx), site.effect(), "{site}");
            site.add_seen(&mut done, seen[site.function].rcx);
        }
    }
    arena.assert_as_expected();
    done.seen = seen;
    done
}
