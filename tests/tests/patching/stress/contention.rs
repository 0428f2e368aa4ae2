//! Several patchers on one instruction: one wins, the others return an error or `false`, and the
//! instruction is the winner's.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU8, Ordering};

use probe_runtime::patch::word::{INT3, WordOptions};
use probe_runtime::patch::{Bytes, PatchError};

use super::arena::{Site, of_forms};
use super::executors::while_executed;
use super::scenario::{Done, Play};
use super::tally::Register;

const PATCHERS: usize = 2;

/// The result of a patcher.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Told {
    Nothing,
    Won,
    Busy,
    /// The memory already held the patcher's instruction, or an unexpected one.
    Late,
}

impl Told {
    const ALL: [Self; 4] = [Self::Nothing, Self::Won, Self::Busy, Self::Late];
}

/// The rounds of one site.
struct Contest<'a> {
    options: WordOptions,
    site: &'a Site,
    barrier: &'a Barrier,
    told: &'a [AtomicU8; PATCHERS],
}

/// The number of each result.
#[derive(Default)]
struct Outcomes {
    won: u64,
    busy: u64,
    late: u64,
}

/// Runs two patchers at each straddler. In turn, they write different values, and compete to write
/// the same value.
pub fn contention(play: &Play) -> Done {
    let (mut arena, mut sites) = of_forms(1);
    sites.retain(Site::is_straddler);
    play.random.clone().shuffle(&mut sites);
    let _open = play.open(&arena);
    let options = WordOptions::new().text_policy(play.text);
    let rounds = play.toggles / sites.len() as u64 + 1;
    let (barrier, told) = (Barrier::new(PATCHERS), [const { AtomicU8::new(0) }; PATCHERS]);
    let (counts, seen) = while_executed(&arena.functions, play.executors, PATCHERS, |patcher, executors| {
        let mut counts = Outcomes::default();
        for site in &sites {
            executors.focus(patcher, site.function);
            let contest = Contest { options, site, barrier: &barrier, told: &told };
            executors.settle();
            for round in 0..rounds {
                if round % 2 == 0 {
                    contest.two_values(patcher, &mut counts);
                } else {
                    contest.one_value(patcher, &mut counts);
                }
            }
            contest.end(patcher);
            executors.settle();
        }
        counts
    });
    let mut done = Done::default();
    for counts in counts {
        done.toggles += counts.won;
        done.count("won", counts.won);
        done.count("busy", counts.busy);
        done.count("late", counts.late);
    }
    for site in &sites {
        arena.expect(site.addr, &site.form.new);
        assert_eq!(arena.execute(site.function).seen(Register::Rax), [0, 1, 0], "{site}");
        done.add_seen(site.function, &["old", "new"], &seen[site.function].rax);
    }
    arena.assert_as_expected();
    done.seen = seen;
    done
}

impl Contest<'_> {
    /// One patcher writes the new instruction, the other the old one.
    fn two_values(&self, patcher: usize, counts: &mut Outcomes) {
        let value = self.site.bytes(patcher == 0);
        self.barrier.wait();
        // SAFETY: an instruction of the arena, which outlives the patch; it may be either.
        let told = match unsafe { self.options.patch(self.site.addr, value) } {
            Ok(()) => Told::Won,
            Err(PatchError::Busy { addr }) if addr == self.site.addr => Told::Busy,
            Err(error) => panic!("{}: {error}", self.site),
        };
        let told = self.tell(patcher, told, counts);
        if patcher == 0 {
            let found = self.found();
            let winners: Vec<_> = (0..PATCHERS).filter(|patcher| told[*patcher] == Told::Won).collect();
            assert!(!winners.is_empty(), "{}: nobody has won", self.site);
            assert!(winners.iter().any(|winner| found == self.site.bytes(*winner == 0)), "{}", self.site);
        }
        self.barrier.wait();
    }

    /// Both patchers replace the current instruction by the other one; one of them succeeds.
    fn one_value(&self, patcher: usize, counts: &mut Outcomes) {
        let from = self.found();
        let to = self.site.bytes(from == self.site.form.old);
        self.barrier.wait();
        // SAFETY: as above.
        let told = match unsafe { self.options.replace(self.site.addr, from, to) } {
            Ok(true) => Told::Won,
            Ok(false) => Told::Late,
            Err(PatchError::Busy { addr }) if addr == self.site.addr => Told::Busy,
            Err(PatchError::Foreign { expected, found, .. }) if (expected, found) == (from, to) => Told::Late,
            Err(error) => panic!("{}: {error}", self.site),
        };
        let told = self.tell(patcher, told, counts);
        if patcher == 0 {
            assert_eq!(told.iter().filter(|told| **told == Told::Won).count(), 1, "{}: {told:?}", self.site);
            assert_eq!(self.found(), to, "{}", self.site);
        }
        self.barrier.wait();
    }

    /// Publishes this patcher's result, and returns the results of all.
    fn tell(&self, patcher: usize, told: Told, counts: &mut Outcomes) -> [Told; PATCHERS] {
        match told {
            Told::Nothing => {}
            Told::Won => counts.won += 1,
            Told::Busy => counts.busy += 1,
            Told::Late => counts.late += 1,
        }
        self.told[patcher].store(told as u8, Ordering::Relaxed);
        self.barrier.wait();
        self.told.each_ref().map(|told| Told::ALL[usize::from(told.load(Ordering::Relaxed))])
    }

    /// Writes the new instruction at the end.
    fn end(&self, patcher: usize) {
        if patcher == 0 {
            // SAFETY: as above.
            unsafe { self.options.patch(self.site.addr, self.site.form.new) }.unwrap();
        }
        self.barrier.wait();
    }

    /// Returns the current instruction. No thread may patch it meanwhile.
    fn found(&self) -> Bytes {
        // SAFETY: bytes of the arena, which nobody writes now.
        let bytes =
            unsafe { std::slice::from_raw_parts(self.site.addr as *const u8, self.site.form.old.len()) };
        assert_ne!(bytes[0], INT3, "{}", self.site);
        Bytes::new(bytes).unwrap()
    }
}
