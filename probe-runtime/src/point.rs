//! The macro of a probe at a place.

/// A probe at this place: `point!("name", field, field = expr, field = ?expr, field = %expr)`.
///
/// The same macro as `probe!`, under a name that can be imported beside the attribute `#[probe]`:
/// stable Rust has one namespace for both kinds of macro. Inside a function with `#[probe]`,
/// `probe!(…)` works without an import. Elsewhere write `probe_runtime::point!(…)`, or define
/// the name for a whole crate with one line at its top: `macro_rules! probe { ($($t:tt)*) => {
/// probe_runtime::point!($($t)*) } }`.
///
/// Fields are evaluated only while the probe is active. Numbers, `bool`, `char`, text and bytes are
/// recorded as they are, and other values through `?` ([`Debug`](core::fmt::Debug)) or `%`
/// ([`Display`](core::fmt::Display)). A field with `?` or `%` is copied if it is `Copy` and small.
/// Otherwise it borrows its variable, which then has an address. Other fields are read in place. A
/// panic in a field does not reach the program:
#[cfg_attr(feature = "std", doc = "see [`failed_captures`](crate::losses::failed_captures).")]
#[cfg_attr(not(feature = "std"), doc = "with the feature `std`, it is contained and counted.")]
///
/// The probe's path is the module's path and the name: `probe!("parsed")` in `net::handle` is
/// `net::parsed`. Give points of different functions different names, or a segment of their own, as
/// in `probe!("handle::parsed")`.
///
/// `point!(usdt, "name", …)` is also a USDT probe, for bpftrace, perf and gdb (the feature `usdt`).
///
/// Cost while latent: one 5-byte NOP and at most 4 bytes of padding. A point inside a loop also
/// keeps the compiler from unrolling or vectorising that loop, since control may leave the loop
/// there. Inside a loop, three or more fields may cost an address that is computed ahead of the
/// loop.
///
/// ```
/// fn read(input: &[u8]) -> usize {
///     probe_runtime::point!("read", bytes = input.len(), head = ?input.first());
///     input.len()
/// }
/// assert_eq!(read(b"abc"), 3);
/// ```
#[macro_export]
macro_rules! point {
    ($($input:tt)*) => { $crate::__private::v1::expand_point! { $crate; $($input)* } };
}
