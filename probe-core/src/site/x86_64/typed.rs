//! A passage that also records the value's type, in a record among the sites' and without an
//! instruction. Only code that is instantiated for a type knows the type, and it lies wherever the
//! compiler put the cold block.

// Safety: relies on directives for other sections, and on labels, adding no instruction.
#![expect(unsafe_code, reason = "see above")]

use core::arch::asm;
use core::marker::PhantomData;

use super::call::Stub;
use crate::abi::Type;
use crate::abi::passage::{Formatting, Passage};

/// The passage `P` of the field with this index, of the probe with this stub.
#[derive(Debug)]
pub struct Typed<S, P, const INDEX: usize>(PhantomData<(S, P)>);

impl<S: Stub, P, const INDEX: usize> Typed<S, P, INDEX> {
    /// Emits the record of the field's type (docs/abi.md, "Records").
    #[inline(always)]
    fn record<const TY: u64>() {
        // SAFETY: see above.
        unsafe {
            asm!(
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
