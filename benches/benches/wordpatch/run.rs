//! The cases: idle, while another thread executes the instruction, and a thousand in progress.

// Safety: relies on instructions in memory of their own that stays writable and that only this
// thread patches.
#![expect(unsafe_code, reason = "see above")]

use std::cell::RefCell;
use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use probe_benches::baseline::{OpenWord, membarrier};
use probe_benches::code::{LEN, MOV, Patched, Place, SUB, mov, straddlers, sub};
use probe_benches::toggled::TMAX;
use probe_benches::{Case, Medians, Scale, figure, interleave, pin};
use probe_runtime::patch::word::{Pending, Wait, WordOptions};
use probe_runtime::patch::{Bytes, PatchError, TextPolicy};

/// The number of patches in progress at once.
const UNDER_WAY: u64 = 1_000;
const OPEN: WordOptions = WordOptions::new().text_policy(TextPolicy::Open);

pub fn run() {
    let scale = Scale::from_args();
    pin(0);
    one_by_one(scale, false);
    one_by_one(scale, true);
    a_thousand(scale);
}

/// The code to toggle, and its two instructions.
#[derive(Clone, Copy)]
struct Site {
    code: Patched,
    options: WordOptions,
}

impl Site {
    fn new(place: Place, options: WordOptions) -> Self {
        Self { code: Patched::new(place, |_| mov(MOV)), options }
    }

    fn toggle(&self, patches: u64) {
        for nth in 0..patches {
            self.patch(if nth % 2 == 0 { sub(SUB) } else { mov(MOV) });
        }
    }

    fn patch(&self, value: [u8; LEN]) {
        loop {
            // SAFETY: one instruction of five bytes, in text that stays writable.
            match unsafe { self.options.patch(self.code.site(), Bytes::from(value)) } {
                Ok(()) => return,
                // The other thread has not left the trap yet.
                Err(PatchError::Busy { .. }) => spin_loop(),
                Err(error) => panic!("{error}"),
            }
        }
    }
}

/// Measures blocking patches.
fn one_by_one(scale: Scale, is_busy: bool) {
    let straddling = Place::AcrossLines(2);
    let sites = [
        ("one-word", Site::new(Place::Aligned, OPEN), 2_000),
        ("straddler-tmax", Site::new(straddling, OPEN.wait(Wait::Tmax(TMAX))), 100),
        ("straddler-barrier", Site::new(straddling, OPEN), 50),
        ("strict-barrier", Site::new(Place::Aligned, OPEN.strict(true)), 50),
    ];
    for (name, site, _) in &sites {
        // The first patch may set up what traps need.
        site.toggle(2);
        assert_eq!(site.code.function()(), MOV, "{name}");
    }
    let word = OpenWord::new();
    let executed = Executed::default();
    let busy = |site: Option<Site>| {
        let executed = &executed;
        move || {
            if is_busy {
                executed.set(site.map(|site| site.code));
            }
        }
    };
    let aligned = sites[0].1;
    let mut cases = vec![
        Case::prepared("cmpxchg", scale.of(2_000), busy(Some(aligned)), |calls| {
            for _ in 0..calls {
                word.exchange();
            }
        }),
        Case::prepared("two-membarriers", scale.of(50), busy(Some(aligned)), |calls| {
            for _ in 0..calls {
                membarrier();
                membarrier();
            }
        }),
    ];
    for (name, site, patches) in sites {
        cases
            .push(Case::prepared(name, scale.of(patches), busy(Some(site)), move |calls| site.toggle(calls)));
    }
    let medians = executed.beside(is_busy, || interleave(scale.of(300), &mut cases));
    drop(cases);
    report(&medians, is_busy);
}

fn report(medians: &Medians, is_busy: bool) {
    let load = if is_busy { "-under-load" } else { "" };
    for name in medians.names() {
        let baseline = match name {
            "cmpxchg" | "one-word" => "cmpxchg",
            _ => "two-membarriers",
        };
        let (ns, ratio) = (medians.ns(name), medians.ratio(name, baseline));
        figure(&format!("wordpatch/{name}{load}"), format_args!("{ns:.1}"), "ns a patch", ratio, baseline);
    }
}

/// Measures asynchronous patches: all are started, then each advances by a step in rotation until
/// all are done.
fn a_thousand(scale: Scale) {
    let sites = straddlers(usize::try_from(UNDER_WAY).unwrap_or_default(), 2);
    let word = OpenWord::new();
    let mut under_way: Vec<Pending> = Vec::with_capacity(sites.len());
    let mut round = |options: WordOptions, value: [u8; LEN]| {
        for site in &sites {
            // SAFETY: one instruction of five bytes, in text that stays writable.
            let pending = unsafe { options.start(*site, Bytes::from(value)) };
            under_way.push(pending.unwrap_or_else(|error| panic!("{error}")));
        }
        while !under_way.is_empty() {
            under_way.retain_mut(|patch| !patch.finish());
        }
    };
    round(OPEN, sub(SUB));
    let round = RefCell::new(round);
    let rounds = |options: WordOptions| {
        let round = &round;
        move |_| {
            let mut round = round.borrow_mut();
            round(options, mov(MOV));
            round(options, sub(SUB));
        }
    };
    let medians = interleave(
        scale.of(300),
        &mut [
            Case::new("cmpxchg", scale.of(2_000), |calls| {
                for _ in 0..calls {
                    word.exchange();
                }
            }),
            Case::new("thousand-barrier", 2 * UNDER_WAY, rounds(OPEN)),
            Case::new("thousand-tmax", 2 * UNDER_WAY, rounds(OPEN.wait(Wait::Tmax(TMAX)))),
        ],
    );
    for site in &sites {
        // SAFETY: five bytes of a mapping that is never unmapped and that no thread patches any
        // more.
        assert_eq!(unsafe { (*site as *const [u8; LEN]).read() }, sub(SUB));
    }
    for name in ["thousand-barrier", "thousand-tmax"] {
        let (ns, ratio) = (medians.ns(name), medians.ratio(name, "cmpxchg"));
        figure(&format!("wordpatch/{name}"), format_args!("{ns:.1}"), "ns a patch", ratio, "cmpxchg");
    }
}

/// The function that another thread executes, if any.
#[derive(Default)]
struct Executed {
    function: AtomicU64,
    calls: AtomicU64,
    stop: AtomicBool,
}

impl Executed {
    /// Changes the function; returns when the other thread executes it.
    fn set(&self, code: Option<Patched>) {
        let site = code.map_or(0, |code| code.function() as usize as u64);
        self.function.store(site, Ordering::Relaxed);
        let before = self.calls.load(Ordering::Relaxed);
        while self.calls.load(Ordering::Relaxed) < before + 10 {
            spin_loop();
        }
    }

    /// Runs `work`, and if `is_busy`, the other thread beside it.
    fn beside<T>(&self, is_busy: bool, work: impl FnOnce() -> T) -> T {
        self.stop.store(!is_busy, Ordering::Relaxed);
        thread::scope(|scope| {
            scope.spawn(|| {
                pin(1);
                while !self.stop.load(Ordering::Relaxed) {
                    self.execute();
                }
            });
            let done = work();
            self.stop.store(true, Ordering::Relaxed);
            done
        })
    }

    fn execute(&self) {
        let function = self.function.load(Ordering::Relaxed);
        if function != 0 {
            // SAFETY: an address that `set` has stored, of such a function.
            let function = unsafe {
                std::mem::transmute::<usize, extern "C" fn() -> u32>(
                    usize::try_from(function).unwrap_or_default(),
                )
            };
            for _ in 0..16 {
                let value = black_box(function)();
                assert!(value == MOV || value == SUB.wrapping_neg(), "a mix: {value:#x}");
            }
        }
        self.calls.fetch_add(1, Ordering::Relaxed);
    }
}
