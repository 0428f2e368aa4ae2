//! Wall time, split into CPU time and waits.

/// Where the wall time of calls went, in nanoseconds.
///
/// ```
/// use probe_report::Split;
///
/// fn is_slow_by_itself(split: Split) -> bool {
///     split.cpu > split.blocked + split.ready
/// }
/// # assert!(is_slow_by_itself(Split { cpu: 3, blocked: 1, ready: 1, unknown: 0 }));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Split {
    /// On a processor.
    pub cpu: u64,
    /// Off the processor: the thread slept, or waited for another thread, a file or a device.
    pub blocked: u64,
    /// Off the processor, although the thread could have continued: other threads had their turn.
    pub ready: u64,
    /// Of calls whose waits are not known.
    pub unknown: u64,
}
