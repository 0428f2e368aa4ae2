//! The call of a probe's stub from a cold block, with the fields' values on the stack (docs/abi.md,
//! "Values").
//!
//! All of it is inlined into the cold block. These are functions rather than macros of the site to
//! save compile time: a call names some seventy registers, which the compiler checks once here
//! instead of at each site.
//!
//! One or two values go to the stack word by word, from registers. Their address is never taken, so
//! nothing is computed outside of the cold block. More values go through an array that the compiler
//! lays out.

// Safety: relies on the stub entering the owner of the probe, which keeps every register that is
// not named here (docs/abi.md, "Entry") and reads the values, which the caller keeps alive; and on
// directives for other sections, and labels, adding no instruction. The code steps over the red
// zone, and restores the stack pointer.
#![expect(unsafe_code, reason = "see above")]

use core::marker::PhantomData;

use crate::abi::passage::{Formatting, Passage, Words};
use crate::abi::{Type, Value};

/// A probe as a type, given by its stub, for functions that are instantiated per probe.
pub trait Stub {
    /// The stub of the probe.
    extern "C" fn stub();
}

/// Steps over the red zone, calls the stub, steps back.
///
/// The x87 stack is not named, to save compile time. It is empty before the call, since Rust keeps
/// no value there and C functions find it empty at their entry. It is empty after the call, as
/// after any function. So it does not change.
macro_rules! call_stub {
    ([$($stub:tt)+], [$($before:literal),+], [$($after:literal),+], [$($values:tt)*]) => {
        core::arch::asm!(
            $($before,)+
            "call {stub}",
            $($after,)+
            stub = $($stub)+, $($values)*
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _, out("xmm5") _,
            out("xmm6") _, out("xmm7") _, out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
            out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _, out("xmm16") _, out("xmm17") _,
            out("xmm18") _, out("xmm19") _, out("xmm20") _, out("xmm21") _, out("xmm22") _, out("xmm23") _,
            out("xmm24") _, out("xmm25") _, out("xmm26") _, out("xmm27") _, out("xmm28") _, out("xmm29") _,
            out("xmm30") _, out("xmm31") _, out("k0") _, out("k1") _, out("k2") _, out("k3") _,
            out("k4") _, out("k5") _, out("k6") _, out("k7") _,
            options(nostack),
        )
    };
}

pub(super) use call_stub;

/// Delivers the hit of a probe without fields.
///
/// # Safety
/// Must be the cold block of a site of the probe.
#[inline(always)]
pub unsafe fn call<S: Stub>() {
    // SAFETY: see above.
    unsafe { call_stub!([sym S::stub], ["add rsp, -128"], ["sub rsp, -128"], []) }
}

/// Delivers the hit of a probe with one field.
///
/// # Safety
/// Must be in the cold block of a site of the probe, and the value must be that field's.
#[inline(always)]
pub unsafe fn call_with_one<S: Stub>(Words([ty, low, high], _): Words<'_>) {
    // SAFETY: see above.
    unsafe {
        call_stub!(
            [sym S::stub],
            ["sub rsp, 192", "mov [rsp], {ty}", "mov [rsp + 8], {low}", "mov [rsp + 16], {high}"],
            ["add rsp, 192"],
            [ty = in(reg) ty, low = in(reg) low, high = in(reg) high,]
        );
    }
}

/// Delivers the hit of a probe with two fields.
///
/// # Safety
/// The same as for `call_with_one`; the values must be those of the two fields.
#[inline(always)]
pub unsafe fn call_with_two<S: Stub>(
    Words([ty1, low1, high1], _): Words<'_>,
    Words([ty2, low2, high2], _): Words<'_>,
) {
    // SAFETY: see above.
    unsafe {
        call_stub!(
            [sym S::stub],
            [
                "sub rsp, 192",
                "mov [rsp], {ty1}", "mov [rsp + 8], {low1}", "mov [rsp + 16], {high1}",
                "mov [rsp + 24], {ty2}", "mov [rsp + 32], {low2}", "mov [rsp + 40], {high2}"
            ],
            ["add rsp, 192"],
            [
                ty1 = in(reg) ty1, low1 = in(reg) low1, high1 = in(reg) high1,
                ty2 = in(reg) ty2, low2 = in(reg) low2, high2 = in(reg) high2,
            ]
        );
    }
}

/// Delivers the hit of a probe with more fields.
///
/// # Safety
/// The same as for `call_with_one`; the values must be those of all fields.
#[inline(always)]
pub unsafe fn call_with_all<S: Stub>(values: &[Value<'_>]) {
    // SAFETY: see above.
    unsafe {
        call_stub!(
            [sym S::stub],
            ["sub rsp, 192", "mov [rsp + 56], {values}"],
            ["add rsp, 192"],
            [values = in(reg) values.as_ptr(),]
        );
    }
}

/// As many values as a probe may have fields.
const FAILED: &[Value<'static>; 32] = &[Value::FAILED; 32];

/// Delivers the hit of a probe with fields, one of which panicked, with values that say so. Fills
/// both places for values, whatever their number.
///
/// # Safety
/// Must be in the cold block of a site of the probe, and `stub` must be the stub of the probe.
#[cold]
#[inline(never)]
pub unsafe fn call_failed(stub: extern "C" fn()) {
    let [first, _] = Value::FAILED.words;
    // SAFETY: see above.
    unsafe {
        call_stub!(
            [in(reg) stub],
            [
                "sub rsp, 192",
                "mov [rsp], {ty}", "mov [rsp + 8], {zero}", "mov [rsp + 16], {zero}",
                "mov [rsp + 24], {ty}", "mov [rsp + 32], {zero}", "mov [rsp + 40], {zero}",
                "mov [rsp + 56], {values}"
            ],
            ["add rsp, 192"],
            [ty = in(reg) Value::FAILED.ty, zero = in(reg) first, values = in(reg) FAILED.as_ptr(),]
        );
    }
}

/// The passage `P` of the field with this index, of the probe with this stub. It also records the
/// value's type, in a record among the sites' and without an instruction. Only code that is
/// instantiated for a type knows the type, and it lies wherever the compiler put the cold block.
#[derive(Debug)]
pub struct Typed<S, P, const INDEX: usize>(PhantomData<(S, P)>);

impl<S: Stub, P, const INDEX: usize> Typed<S, P, INDEX> {
    /// Emits the record of the field's type (docs/abi.md, "Records").
    #[inline(always)]
    fn record<const TY: u64>() {
        // SAFETY: see above.
        unsafe {
            core::arch::asm!(
                // As for a site, once per assembler context; a counter makes the labels unique.
                ".ifndef .Lprobe_v1_types",
                ".set .Lprobe_v1_types, 0",
                ".macro probe_v1_type n, index, ty, stub",
                ".Lprobe_v1_type_\\n\\():",
                ".pushsection probe_sites, \"ao\", @progbits, .Lprobe_v1_type_\\n",
                ".p2align 2",
                ".byte 1, 12, 3, \\index",
                ".long \\ty, \\stub@PLT - .",
                ".popsection",
                ".endm",
                ".endif",
                ".set .Lprobe_v1_types, .Lprobe_v1_types + 1",
                ".altmacro",
                "probe_v1_type %.Lprobe_v1_types, {index}, {ty}, {stub}",
                ".noaltmacro",
                index = const INDEX,
                ty = const TY,
                stub = sym S::stub,
                options(nomem, nostack, preserves_flags),
            );
        }
    }
}

impl<S: Stub, P: Passage, const INDEX: usize> Passage for Typed<S, P, INDEX> {
    type Out<'a> = P::Out<'a>;

    #[inline(always)]
    fn one<'a, const TY: u64>(low: u64) -> P::Out<'a> {
        Self::record::<TY>();
        P::one::<TY>(low)
    }

    #[inline(always)]
    fn two<'a, const TY: u64>(low: u64, high: u64) -> P::Out<'a> {
        Self::record::<TY>();
        P::two::<TY>(low, high)
    }

    #[inline(always)]
    fn text<'a, const AT: usize, const LEN: u64>() -> P::Out<'a> {
        Self::record::<{ Type::Str as u64 }>();
        P::text::<AT, LEN>()
    }

    #[inline(always)]
    fn formatted<'a, F: Formatting>(data: *const ()) -> P::Out<'a> {
        Self::record::<{ Type::Format as u64 }>();
        P::formatted::<F>(data)
    }
}
