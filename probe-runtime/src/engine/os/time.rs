//! The system's clocks, in nanoseconds.

// Safety: relies on clock_gettime(2), which writes the time that it is given a place for.
#![cfg_attr(all(unix, not(miri)), expect(unsafe_code, reason = "see above"))]

/// Returns the time of the monotonic clock.
#[cfg(all(unix, not(miri)))]
pub(crate) fn monotonic() -> u64 {
    clock(libc::CLOCK_MONOTONIC)
}

/// Returns the calendar time since 1970.
#[cfg(all(unix, not(miri)))]
pub(crate) fn real() -> u64 {
    clock(libc::CLOCK_REALTIME)
}

/// Returns the time since the machine was started, sleep included; 0 if it is not known.
#[cfg(all(any(target_os = "linux", target_os = "android"), not(miri)))]
pub(crate) fn since_boot() -> u64 {
    clock(libc::CLOCK_BOOTTIME)
}

/// Returns 0, since the time is not known.
#[cfg(not(all(any(target_os = "linux", target_os = "android"), not(miri))))]
pub(crate) fn since_boot() -> u64 {
    0
}

#[cfg(all(unix, not(miri)))]
fn clock(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a place for the time.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    // Both parts are positive after 1970.
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

/// Returns the time since the first call.
#[cfg(not(all(unix, not(miri))))]
pub(crate) fn monotonic() -> u64 {
    static START: std::sync::LazyLock<std::time::Instant> = std::sync::LazyLock::new(std::time::Instant::now);
    START.elapsed().as_nanos().try_into().unwrap_or(u64::MAX)
}

/// Returns the calendar time since 1970.
#[cfg(not(all(unix, not(miri))))]
pub(crate) fn real() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    since.as_nanos().try_into().unwrap_or(u64::MAX)
}

/// Returns the number that tells this start of the machine from others; 0 if it is not known.
/// (Linux: random(4), `/proc/sys/kernel/random/boot_id`.)
pub(crate) fn boot_id() -> u128 {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    u128::from_str_radix(&text.trim().replace('-', ""), 16).unwrap_or_default()
}
