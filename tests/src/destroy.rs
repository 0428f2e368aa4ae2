//! A consumer that changes every vector, mask and x87 register.

use std::arch::asm;
use std::sync::atomic::{AtomicU64, Ordering};

use probe_runtime::{Consumer, Event};

/// Counts its hits, and leaves nothing in vector, mask and x87 registers as it was.
#[derive(Default, Debug)]
pub struct Destroy(AtomicU64);

impl Destroy {
    /// How many hits there were.
    pub fn hits(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Consumer for Destroy {
    fn hit(&self, _event: &Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
        // SAFETY: all that it changes is declared.
        unsafe {
            asm!(
                "pcmpeqd xmm0, xmm0", "pcmpeqd xmm1, xmm1", "pcmpeqd xmm2, xmm2", "pcmpeqd xmm3, xmm3",
                "pcmpeqd xmm4, xmm4", "pcmpeqd xmm5, xmm5", "pcmpeqd xmm6, xmm6", "pcmpeqd xmm7, xmm7",
                "pcmpeqd xmm8, xmm8", "pcmpeqd xmm15, xmm15", "fninit", "fldpi", "fstp st(0)",
                out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _, out("xmm5") _,
                out("xmm6") _, out("xmm7") _, out("xmm8") _, out("xmm15") _, out("st(0)") _, out("st(1)") _,
                out("st(2)") _, out("st(3)") _, out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
            );
        }
        if std::is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor has it.
            unsafe { destroy_wide() };
        } else if std::is_x86_feature_detected!("avx") {
            // SAFETY: the processor has it.
            unsafe {
                asm!("vzeroall", out("ymm0") _, out("ymm1") _, out("ymm2") _, out("ymm3") _, out("ymm4") _,
                out("ymm5") _, out("ymm6") _, out("ymm7") _, out("ymm8") _, out("ymm9") _, out("ymm10") _,
                out("ymm11") _, out("ymm12") _, out("ymm13") _, out("ymm14") _, out("ymm15") _);
            };
        }
    }
}

#[target_feature(enable = "avx512f")]
fn destroy_wide() {
    // SAFETY: all that it changes is declared.
    unsafe {
        asm!(
            "vpternlogd zmm0, zmm0, zmm0, 255", "vpternlogd zmm7, zmm7, zmm7, 255", "vpternlogd zmm16, zmm16, zmm16, 255",
            "vpternlogd zmm31, zmm31, zmm31, 255", "kxnorw k1, k1, k1", "kxnorw k7, k7, k7", "vzeroall",
            out("zmm0") _, out("zmm1") _, out("zmm2") _, out("zmm3") _, out("zmm4") _, out("zmm5") _, out("zmm6") _,
            out("zmm7") _, out("zmm8") _, out("zmm9") _, out("zmm10") _, out("zmm11") _, out("zmm12") _,
            out("zmm13") _, out("zmm14") _, out("zmm15") _, out("zmm16") _, out("zmm31") _, out("k1") _, out("k7") _,
        );
    }
}
