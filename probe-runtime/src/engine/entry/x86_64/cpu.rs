//! The time stamp counter, and the performance counters.
//!
//! The manuals: Intel SDM 3B, 18.17.1 "Invariant TSC"; AMD APM 3, `CPUID Fn8000_0007_EDX[8]`.

// Safety: relies on instructions that every x86-64 processor has, and that touch no memory; and on
// the kernel's permission to read a performance counter.
#![expect(unsafe_code, reason = "see above")]

/// Reads the time stamp counter. The instruction does not wait for those before it, and those after
/// it do not wait for it.
#[inline(always)]
#[allow(unused_unsafe, reason = "later versions of Rust than the oldest that is supported call it safe")]
pub(crate) fn time_stamp() -> u64 {
    // SAFETY: the instruction exists on every x86-64 processor, and touches no memory.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// Returns whether the counter runs at one rate, whatever the processor's state.
#[allow(unused_unsafe, reason = "later versions of Rust than the oldest that is supported call it safe")]
pub(crate) fn has_steady_time_stamp() -> bool {
    const ADVANCED_POWER_MANAGEMENT: u32 = 0x8000_0007;
    // SAFETY: the processor has the instruction.
    let leaf = |leaf: u32| unsafe { std::arch::x86_64::__cpuid(leaf) };
    leaf(0x8000_0000).eax >= ADVANCED_POWER_MANAGEMENT && leaf(ADVANCED_POWER_MANAGEMENT).edx & (1 << 8) != 0
}

/// Lets no later instruction begin before a reading is done. (Intel SDM 2B, "RDTSC": `LFENCE`
/// immediately after.)
#[inline(always)]
pub(crate) fn await_time_stamp() {
    // SAFETY: the instruction exists on every x86-64 processor, and touches no memory.
    unsafe { std::arch::x86_64::_mm_lfence() };
}

/// Reads a performance counter.
///
/// # Safety
/// The kernel allows this thread to read the counter.
#[inline(always)]
pub(crate) unsafe fn performance_counter(number: u32) -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: the caller's promise.
    unsafe {
        std::arch::asm!(
            "rdpmc", in("ecx") number, out("eax") low, out("edx") high,
            options(nomem, nostack, preserves_flags)
        );
    }
    u64::from(high) << 32 | u64::from(low)
}
