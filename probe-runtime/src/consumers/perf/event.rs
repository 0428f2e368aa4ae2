//! The events that can be counted, and the reasons why an event can't be.

use std::fmt;
use std::str::FromStr;

use crate::engine::os::perf::{Descriptor, EventConfig, paranoid};

/// An event that [`Perf`](super::Perf) counts for each thread. The processor counts the first four;
/// the kernel counts the others, on every machine.
///
/// ```
/// use probe_runtime::{Perf, PerfEvent};
///
/// let _perf = Perf::of([PerfEvent::PageFaults, PerfEvent::ContextSwitches]);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum PerfEvent {
    /// Cycles of the processor. Their length varies with its frequency.
    Cycles,
    /// Instructions that were completed.
    Instructions,
    /// Accesses that missed the last level of the cache, as the processor defines them.
    CacheMisses,
    /// Branches that were mispredicted.
    BranchMisses,
    /// Nanoseconds that the thread ran on a processor, including the kernel's work for it.
    TaskClock,
    /// Accesses to pages that were not mapped, or not yet writable.
    PageFaults,
    /// Switches to another thread, because this one waited or had used up its time slice.
    ContextSwitches,
    /// Moves of the thread to another processor.
    Migrations,
}

/// The events' names, and their numbers in `perf_event_open(2)`, in the order of
/// [`PerfEvent::ALL`].
const KNOWN: [(&str, u32, u64); 8] = [
    ("cycles", HARDWARE, 0),
    ("instructions", HARDWARE, 1),
    ("cache-misses", HARDWARE, 3),
    ("branch-misses", HARDWARE, 5),
    ("task-clock", SOFTWARE, 1),
    ("page-faults", SOFTWARE, 2),
    ("context-switches", SOFTWARE, 3),
    ("cpu-migrations", SOFTWARE, 4),
];
const HARDWARE: u32 = 0;
const SOFTWARE: u32 = 1;

impl PerfEvent {
    /// All events.
    pub const ALL: [Self; 8] = [
        Self::Cycles,
        Self::Instructions,
        Self::CacheMisses,
        Self::BranchMisses,
        Self::TaskClock,
        Self::PageFaults,
        Self::ContextSwitches,
        Self::Migrations,
    ];

    /// The events of the processor. A machine may have all of them, some, or none, as many virtual
    /// machines do.
    pub const HARDWARE: [Self; 4] = [Self::Cycles, Self::Instructions, Self::CacheMisses, Self::BranchMisses];

    /// The kernel's events that are most useful if the processor's are unavailable.
    pub const SOFTWARE: [Self; 3] = [Self::TaskClock, Self::PageFaults, Self::ContextSwitches];

    /// Returns the name of the event in reports, in `PROBES`, and in `perf stat`.
    pub const fn name(self) -> &'static str {
        KNOWN[self as usize].0
    }

    /// Returns whether the processor counts the event.
    pub const fn is_hardware(self) -> bool {
        KNOWN[self as usize].1 == HARDWARE
    }

    /// Returns the event as `perf_event_open(2)` numbers it.
    pub(super) fn wanted(self, user_mode_only: bool) -> EventConfig {
        let (_, of_type, config) = KNOWN[self as usize];
        EventConfig { of_type, config, user_mode_only }
    }

    /// Returns whether the event can be opened without permission to count the kernel's work. The
    /// kernel switches threads, so switches and migrations can't.
    pub(super) fn has_user_mode(self) -> bool {
        !matches!(self, Self::ContextSwitches | Self::Migrations)
    }
}

impl fmt::Display for PerfEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for PerfEvent {
    type Err = String;

    /// Returns the event with this [`name`](Self::name).
    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|event| event.name() == name).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("`{name}` is not an event; there is {names}")
        })
    }
}

/// An event that can't be counted here, with the reason. It prints as a sentence.
///
/// ```
/// use probe_runtime::{Perf, PerfEvent, probe, select};
///
/// #[probe]
/// fn scan() {}
///
/// // A machine that counts cycles alone; error 2 says that there is no counter.
/// let perf = Perf::new().with_counts(|event| if event == PerfEvent::Cycles { Ok(0) } else { Err(2) });
/// let perf = select("**::scan")?.attach(perf)?;
/// scan();
/// let counts = perf.event_counts();
/// for missing in counts.missing() {
///     println!("{:?} is not counted: {}", missing.event(), missing.reason());
/// }
/// # Ok::<(), probe_runtime::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MissingEvent {
    event: PerfEvent,
    error: i32,
}

impl MissingEvent {
    pub(super) fn new(event: PerfEvent, error: i32) -> Self {
        Self { event, error }
    }

    /// Returns the event.
    pub fn event(&self) -> PerfEvent {
        self.event
    }

    /// Returns the error number from `perf_event_open(2)`.
    pub fn error(&self) -> i32 {
        self.error
    }

    /// Returns the reason, with a remedy if there is one.
    pub fn reason(&self) -> String {
        reason(self.error)
    }
}

impl fmt::Display for MissingEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.event, self.reason())
    }
}

/// Opens an event that counts this thread, and closes it at once.
///
/// # Errors
/// If it can't be counted here.
pub fn try_event(event: PerfEvent) -> Result<(), MissingEvent> {
    let opened =
        Descriptor::open(event.wanted(true), None).map_err(|error| MissingEvent::new(event, error))?;
    if let Some(id) = opened.id() {
        opened.close(id);
    }
    Ok(())
}

/// The error if none of the requested events can be counted here, with the reason for each.
/// [`Perf`](crate::Perf) returns it in an [`Error::Consumer`](crate::Error::Consumer).
///
/// ```
/// use probe_runtime::{Error, NoEvents, Perf, probe, select};
///
/// #[probe]
/// fn index() {}
///
/// match select("**::index")?.attach(Perf::new()) {
///     Ok(_) => println!("some can be counted"),
///     Err(Error::Consumer(error)) if error.is::<NoEvents>() => println!("{error}"),
///     Err(error) => return Err(error),
/// }
/// # index();
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NoEvents(pub Vec<MissingEvent>);

impl fmt::Display for NoEvents {
    /// Groups events that share a reason.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no event can be counted here")?;
        by_reason(&self.0).try_for_each(|missing| write!(f, "; {missing}"))?;
        let is_hardware_alone = self.0.iter().all(|it| it.event().is_hardware());
        if self.0.is_empty() {
            f.write_str("; name some")?;
        } else if is_hardware_alone {
            let names: Vec<_> = PerfEvent::SOFTWARE.iter().map(|event| event.name()).collect();
            write!(f, "; the kernel's own events need no counter: {}", names.join(", "))?;
        }
        Ok(())
    }
}

impl std::error::Error for NoEvents {}

/// Returns a text for each reason, with the events that it is about.
pub(super) fn by_reason(missing: &[MissingEvent]) -> impl Iterator<Item = String> {
    missing.chunk_by(|one, other| one.error() == other.error()).map(|alike| {
        let names: Vec<_> = alike.iter().map(|it| it.event().name()).collect();
        format!("{}: {}", names.join(", "), alike[0].reason())
    })
}

/// Explains an error number of `perf_event_open(2)`, with a remedy if there is one.
pub(super) fn reason(error: i32) -> String {
    // Linux's numbers, on other systems as well.
    const EPERM: i32 = 1;
    const ENOENT: i32 = 2;
    const ENOMEM: i32 = 12;
    const EACCES: i32 = 13;
    const EBUSY: i32 = 16;
    const ENODEV: i32 = 19;
    const EINVAL: i32 = 22;
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    const ENOSYS: i32 = 38;
    const EOPNOTSUPP: i32 = 95;
    match error {
        ENOENT | ENODEV | EOPNOTSUPP => "this machine has no counter for it".to_owned(),
        ENOSYS => "this system has no perf_event_open, or a filter of system calls hides it".to_owned(),
        EPERM | EACCES => match paranoid() {
            Some(level) => format!(
                "not permitted: kernel.perf_event_paranoid is {level}; lower it, or give the program CAP_PERFMON"
            ),
            None => "not permitted, by a filter of system calls or the system's settings".to_owned(),
        },
        EINVAL => "the processor can't count it together with the others; ask for fewer".to_owned(),
        EBUSY => "another program has the processor's counters for itself".to_owned(),
        EMFILE | ENFILE => "there is no file descriptor left; raise RLIMIT_NOFILE".to_owned(),
        ENOMEM => "there is no memory for it".to_owned(),
        error => std::io::Error::from_raw_os_error(error).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for event in PerfEvent::ALL {
            assert_eq!(event.name().parse(), Ok(event));
        }
        let error = "cycle".parse::<PerfEvent>().unwrap_err();
        assert!(error.starts_with("`cycle` is not an event; there is cycles, instructions, "), "{error}");
    }

    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    #[test]
    fn numbers_match_the_kernel() {
        use perf_event_open_sys::bindings as kernel;
        for (event, of_type, config) in [
            (PerfEvent::Cycles, kernel::PERF_TYPE_HARDWARE, kernel::PERF_COUNT_HW_CPU_CYCLES),
            (PerfEvent::Instructions, kernel::PERF_TYPE_HARDWARE, kernel::PERF_COUNT_HW_INSTRUCTIONS),
            (PerfEvent::CacheMisses, kernel::PERF_TYPE_HARDWARE, kernel::PERF_COUNT_HW_CACHE_MISSES),
            (PerfEvent::BranchMisses, kernel::PERF_TYPE_HARDWARE, kernel::PERF_COUNT_HW_BRANCH_MISSES),
            (PerfEvent::TaskClock, kernel::PERF_TYPE_SOFTWARE, kernel::PERF_COUNT_SW_TASK_CLOCK),
            (PerfEvent::PageFaults, kernel::PERF_TYPE_SOFTWARE, kernel::PERF_COUNT_SW_PAGE_FAULTS),
            (PerfEvent::ContextSwitches, kernel::PERF_TYPE_SOFTWARE, kernel::PERF_COUNT_SW_CONTEXT_SWITCHES),
            (PerfEvent::Migrations, kernel::PERF_TYPE_SOFTWARE, kernel::PERF_COUNT_SW_CPU_MIGRATIONS),
        ] {
            let wanted = event.wanted(false);
            assert_eq!((wanted.of_type, wanted.config), (of_type, config.into()), "{event}");
            assert_eq!(event.is_hardware(), of_type == kernel::PERF_TYPE_HARDWARE);
        }
    }

    #[test]
    fn a_reason_says_what_to_do() {
        assert_eq!(
            MissingEvent::new(PerfEvent::Cycles, 2).to_string(),
            "cycles: this machine has no counter for it"
        );
        assert!(reason(24).contains("RLIMIT_NOFILE"));
        assert!(reason(13).starts_with("not permitted"));
    }
}
