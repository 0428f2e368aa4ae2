//! The time stamp counter: the clock that patcher and executors share.
//!
//! Modern processors count at a constant rate that is the same on all cores. A read costs some 20
//! ticks.

// Safety: relies on instructions that every x86-64 processor has, and that touch no memory.
#![expect(unsafe_code, reason = "see above")]

use std::arch::x86_64::{_mm_lfence, _rdtsc};
use std::hint::spin_loop;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Returns the counter, read after all earlier instructions have executed.
#[inline]
pub fn ticks() -> u64 {
    // SAFETY: see above.
    unsafe {
        _mm_lfence();
        _rdtsc()
    }
}

/// Spins until the counter has reached `end`.
#[inline]
pub fn spin_until(end: u64) {
    while ticks() < end {
        spin_loop();
    }
}

/// Returns the ticks of a second, measured in 50 ms.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few billions")]
pub fn ticks_per_second() -> u64 {
    let (start, before) = (Instant::now(), ticks());
    sleep(Duration::from_millis(50));
    let (after, elapsed) = (ticks(), start.elapsed());
    ((after - before) as f64 / elapsed.as_secs_f64()) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_reached_and_not_before() {
        let end = ticks() + 10_000;
        spin_until(end);
        assert!(ticks() >= end);
        // This time is already over.
        spin_until(0);
    }
}
