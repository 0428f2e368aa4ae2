//! Checks how much of a consumer's arithmetic the program sees. At entries and exits, that is
//! nothing. At a hook that the compiler calls, the program sees the exceptions that a called
//! function may note. Its rounding and masks stay its own.
//! A process of its own: it attaches to all probes there are.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_portable, probe_off))))]

use std::arch::asm;

use probe_build::Sites;
use probe_runtime::{Consumer, Event, select};
use probe_tests::c::{Compiler, Language, Object, Recipe};
use probe_tests::destroyer::destroy;

/// Raises every exception of arithmetic.
struct Raises;

impl Consumer for Raises {
    fn hit(&self, _event: &Event<'_>) {
        assert!(destroy(true), "the x87 stack is empty, as a function may expect it");
    }
}

/// The exception flags of `MXCSR`: invalid, denormal, zero, overflow, underflow, precision.
const NOTED: u32 = 0x3f;
/// Exceptions masked, rounded up.
const CONTROL: u32 = 0x1f80 | 2 << 13;
/// The same of the x87 unit, with 53 bits of precision.
const X87_CONTROL: u16 = 0x0a7f;
/// The condition codes of the x87 status word, which no call keeps, and `fnclex` does not clear.
const CONDITIONS: u16 = 0x4700;

/// Calls a function with no exception noted. Returns `MXCSR`, and x87's control and status words.
fn around(function: extern "C" fn()) -> (u32, u16, u16) {
    let (mut control, mut before, mut x87, mut x87_before, mut status) =
        (CONTROL, 0_u32, X87_CONTROL, 0_u16, 0_u16);
    // SAFETY: restores the control words that it sets; the function is any of C's.
    unsafe {
        asm!("stmxcsr [{}]", "fnstcw [{}]", in(reg) &raw mut before, in(reg) &raw mut x87_before);
        asm!("ldmxcsr [{}]", "fnclex", "fldcw [{}]", in(reg) &raw const control, in(reg) &raw const x87);
        function();
        asm!("stmxcsr [{}]", "fnstcw [{}]", "fnstsw [{}]", in(reg) &raw mut control, in(reg) &raw mut x87, in(reg) &raw mut status);
        asm!("fnclex", "ldmxcsr [{}]", "fldcw [{}]", in(reg) &raw const before, in(reg) &raw const x87_before);
    }
    (control, x87, status & !CONDITIONS)
}

#[test]
fn what_is_noted_where() {
    let root = env!("CARGO_TARGET_TMPDIR");
    for compiler in Compiler::ALL.into_iter().filter(|compiler| compiler.is_there()) {
        for sites in [Sites::EntryReturn, Sites::InstrumentFunctions] {
            let recipe = Recipe::new(compiler, Language::C, sites, "-O2").files(&["state.c"]);
            let object = Object::open(&recipe.build(root).0);
            // SAFETY: a function of this type.
            let function: extern "C" fn() =
                unsafe { std::mem::transmute(object.library.symbol("state_nothing")) };
            assert_eq!(around(function), (CONTROL, X87_CONTROL, 0), "latent, {}", recipe.name());
            let attached = select("state_nothing").unwrap().attach(Raises).unwrap();
            let (control, x87, status) = around(function);
            drop(attached);
            assert_eq!((control & !NOTED, x87), (CONTROL, X87_CONTROL), "{}", recipe.name());
            // Zero, invalid, overflow and precision by SSE; zero by x87.
            let noted = (control & 0b10_1101, status & 0b100);
            let expected = if sites == Sites::EntryReturn { (0, 0) } else { (0b10_1101, 0b100) };
            assert_eq!(noted, expected, "{}", recipe.name());
            object.library.close();
        }
    }
}
