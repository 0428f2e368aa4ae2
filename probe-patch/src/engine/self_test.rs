//! The test of patching on the machine at hand: [`self_test`](crate::self_test()).

// Safety: patches its own functions alone, which no other code calls, and replaces one instruction
// by another.
#![expect(unsafe_code, reason = "see above")]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::{slice, thread};

use crate::arch::self_test::{MAX_PADDING, ONE, TWO, aligned, straddling};
use crate::engine::error::PatchError;
use crate::engine::word::{self, WordOptions, is_straddler};
use crate::os;
use crate::self_test::{SelfTest, SelfTestError};

type TestedFunction = extern "C" fn() -> u32;

/// Number of toggles while another thread executes the function.
const TOGGLES: usize = 200;

pub(crate) fn run() -> Result<SelfTest, SelfTestError> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let before = word::traps();
    let mut seen = SelfTest { patches: 0, calls: 0, traps: 0, has_membarrier: os::has_membarrier() };
    let aligned = TestedInstruction::of("aligned", aligned)?;
    let straddling = TestedInstruction::of("straddling", straddling)?;
    for (instruction, strict) in
        [(&aligned, false), (&straddling, false), (&aligned, true), (&straddling, true)]
    {
        instruction.there_and_back(strict, &mut seen)?;
        instruction.under_way(strict, &mut seen)?;
    }
    for instruction in [&aligned, &straddling] {
        instruction.while_executed(&mut seen)?;
    }
    seen.traps = word::traps() - before;
    Ok(seen)
}

/// A function, and the address of its instruction.
struct TestedInstruction {
    path: &'static str,
    addr: usize,
    call: TestedFunction,
}

impl TestedInstruction {
    fn of(path: &'static str, call: TestedFunction) -> Result<Self, SelfTestError> {
        let start = call as usize;
        let here = |addr: &usize| {
            // SAFETY: the function's code: padding, the instruction, and a `ret` behind it.
            let found = unsafe { slice::from_raw_parts(*addr as *const u8, ONE.len()) };
            *found == *ONE && is_straddler(*addr, ONE.len()) == (path == "straddling")
        };
        match (start..=start + MAX_PADDING).find(here) {
            Some(addr) => Ok(Self { path, addr, call }),
            None => Err(failed(path, "its code is not where it should be: was it patched by somebody else?")),
        }
    }

    fn fail(&self, error: &PatchError) -> SelfTestError {
        failed(self.path, &error.to_string())
    }

    fn expect(&self, what: &str, wanted: u32, found: u32) -> Result<(), SelfTestError> {
        if wanted == found {
            return Ok(());
        }
        Err(failed(self.path, &format!("{what}, it returned {found} instead of {wanted}")))
    }

    /// Patches the instruction at once, and back.
    fn there_and_back(&self, strict: bool, seen: &mut SelfTest) -> Result<(), SelfTestError> {
        let options = WordOptions::new().strict(strict);
        for (from, to, wanted) in [(ONE, TWO, 2), (TWO, ONE, 1)] {
            // SAFETY: one instruction for another.
            let patched =
                unsafe { options.replace(self.addr, from, to) }.map_err(|error| self.fail(&error))?;
            seen.patches += u64::from(patched);
            self.expect("patched", wanted, (self.call)())?;
        }
        Ok(())
    }

    /// Patches the instruction asynchronously, and runs into it on this thread.
    fn under_way(&self, strict: bool, seen: &mut SelfTest) -> Result<(), SelfTestError> {
        for (to, wanted) in [(TWO, 2), (ONE, 1)] {
            let before = word::traps();
            // SAFETY: one instruction for another.
            let patch = unsafe { WordOptions::new().strict(strict).start(self.addr, to) }
                .map_err(|error| self.fail(&error))?;
            self.expect("while it was patched", wanted, (self.call)())?;
            patch.wait().map_err(|error| self.fail(&error))?;
            seen.patches += 1;
            let is_trapped = strict || is_straddler(self.addr, ONE.len());
            if is_trapped && word::traps() == before {
                return Err(failed(self.path, "while it was patched, this thread did not run into the trap"));
            }
        }
        Ok(())
    }

    /// Patches the instruction while another thread executes it.
    fn while_executed(&self, seen: &mut SelfTest) -> Result<(), SelfTestError> {
        let (stop, calls, wrong) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
        thread::scope(|scope| {
            let executor = thread::Builder::new().name("probe-self-test".to_owned());
            let executor = executor.spawn_scoped(scope, || {
                while !stop.load(Ordering::Relaxed) {
                    let result = (self.call)();
                    if ![1, 2].contains(&result) {
                        wrong.store(result.into(), Ordering::Relaxed);
                    }
                    calls.fetch_add(1, Ordering::Relaxed);
                }
            });
            let toggled = executor
                .map_err(|error| failed(self.path, &format!("no thread to execute it: {error}")))
                .and_then(|_| self.toggle(&calls, seen));
            stop.store(true, Ordering::Relaxed);
            toggled
        })?;
        seen.calls += calls.into_inner();
        match wrong.into_inner() {
            0 => Ok(()),
            found => Err(failed(self.path, &format!("while it was patched, another thread got {found}"))),
        }
    }

    fn toggle(&self, calls: &AtomicU64, seen: &mut SelfTest) -> Result<(), SelfTestError> {
        while calls.load(Ordering::Relaxed) == 0 {
            thread::yield_now();
        }
        for (from, to) in [(ONE, TWO), (TWO, ONE)].into_iter().cycle().take(TOGGLES) {
            // SAFETY: one instruction for another.
            let patched = unsafe { WordOptions::new().replace(self.addr, from, to) };
            seen.patches += u64::from(patched.map_err(|error| self.fail(&error))?);
        }
        Ok(())
    }
}

impl Drop for TestedInstruction {
    fn drop(&mut self) {
        // Restores the first instruction, even after a failure.
        // SAFETY: one instruction for another.
        let _ = unsafe { word::patch(self.addr, ONE) };
    }
}

fn failed(path: &'static str, problem: &str) -> SelfTestError {
    SelfTestError { path, problem: problem.to_owned() }
}
