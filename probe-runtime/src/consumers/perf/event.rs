//! The events that can be counted, the reasons why an event can't be, and the choice of events. The
//! attaching thread chooses once, when it attaches the consumer.

use std::fmt;
use std::str::FromStr;

use probe_report::perf_failure;

use crate::engine::os::perf::{Descriptor, EventConfig, ProcessNumber, paranoid};

/// An event that [`Perf`](super::Perf) counts for each thread. The processor counts the first four;
/// the kernel counts the others, on every machine.
///
/// ```
/// use probe_runtime::Perf;
/// use probe_runtime::perf::PerfEvent;
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
    fn has_user_mode(self) -> bool {
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
/// use probe_runtime::perf::PerfEvent;
/// use probe_runtime::{Perf, probe, select};
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

/// The error if none of the requested events can be counted here, with the reason for each.
/// [`Perf`](crate::Perf) returns it in an [`Error::Consumer`](crate::Error::Consumer).
///
/// ```
/// use probe_runtime::perf::NoEvents;
/// use probe_runtime::{Error, Perf, probe, select};
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

// Linux's error numbers, on other systems as well.
const EPERM: i32 = 1;
const EACCES: i32 = 13;
pub(super) const ENOSYS: i32 = 38;

/// Explains an error number of `perf_event_open(2)`, with a remedy if there is one.
pub(super) fn reason(error: i32) -> String {
    perf_failure(error, paranoid())
}

#[derive(Clone, Copy, Debug)]
pub(super) enum CountSource {
    /// The kernel, in the process with this number.
    Kernel(ProcessNumber),
    /// A function. It returns an error number for an event that can't be counted.
    Given(fn(PerfEvent) -> Result<u64, i32>),
}

/// An event that is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Counted {
    pub(super) event: PerfEvent,
    pub(super) user_mode_only: bool,
}

impl Counted {
    /// Returns whether the kernel's work is left out. The time on processors always includes it,
    /// because that is the time for which the group was enabled.
    pub(super) fn leaves_kernel_out(self) -> bool {
        self.user_mode_only && self.event != PerfEvent::TaskClock
    }
}

/// The events to count, in order, and those that can't be counted.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) source: CountSource,
    pub(super) counted: Vec<Counted>,
    pub(super) missing: Vec<MissingEvent>,
}

impl Plan {
    /// Chooses the wanted events that can be counted together. If `wanted` is `None`, chooses the
    /// processor's events, or the kernel's if there are none.
    pub(super) fn new(source: CountSource, wanted: Option<&[PerfEvent]>, in_kernel: bool) -> Self {
        let (counted, missing) = match source {
            CountSource::Kernel(_) => {
                let mut trial = TrialGroup::default();
                choose(wanted, in_kernel, |counted| trial.open(counted))
            }
            CountSource::Given(count) => choose(wanted, true, |counted| count(counted.event).map(|_| ())),
        };
        Self { source, counted, missing }
    }
}

/// Chooses events; pure except for `open`.
fn choose(
    wanted: Option<&[PerfEvent]>,
    in_kernel: bool,
    mut open: impl FnMut(Counted) -> Result<(), i32>,
) -> (Vec<Counted>, Vec<MissingEvent>) {
    let (mut counted, mut missing) = (Vec::<Counted>::new(), Vec::<MissingEvent>::new());
    let mut add = |events: &[PerfEvent]| {
        for event in events.iter().copied() {
            let is_known =
                counted.iter().any(|it| it.event == event) || missing.iter().any(|it| it.event() == event);
            if is_known {
                continue;
            }
            match try_one(event, in_kernel, &mut open) {
                Ok(found) => counted.push(found),
                Err(error) => missing.push(MissingEvent::new(event, error)),
            }
        }
        !counted.is_empty()
    };
    match wanted {
        Some(wanted) => _ = add(wanted),
        None => _ = add(&PerfEvent::HARDWARE) || add(&PerfEvent::SOFTWARE),
    }
    (counted, missing)
}

/// Opens one event. The kernel's events include the kernel's work if that is permitted.
fn try_one(
    event: PerfEvent,
    in_kernel: bool,
    open: &mut impl FnMut(Counted) -> Result<(), i32>,
) -> Result<Counted, i32> {
    let user_mode_only = event.is_hardware() && !in_kernel;
    let mut counted = Counted { event, user_mode_only };
    let mut opened = open(counted);
    if opened.is_err_and(|error| [EPERM, EACCES].contains(&error)) && !user_mode_only && event.has_user_mode()
    {
        counted.user_mode_only = true;
        opened = open(counted);
    }
    opened.map(|()| counted)
}

/// A group of events on this thread, opened only to check that it can be.
#[derive(Default)]
struct TrialGroup(Vec<(Descriptor, u64)>);

impl TrialGroup {
    fn open(&mut self, counted: Counted) -> Result<(), i32> {
        let leader = self.0.first().map(|(leader, _)| *leader);
        let opened = Descriptor::open(counted.event.wanted(counted.user_mode_only), leader)?;
        self.0.push((opened, opened.id().unwrap_or_default()));
        Ok(())
    }
}

impl Drop for TrialGroup {
    fn drop(&mut self) {
        self.0.iter().for_each(|(opened, id)| opened.close(*id));
    }
}

#[cfg(test)]
mod tests {
    use super::PerfEvent::{
        BranchMisses, CacheMisses, ContextSwitches, Cycles, Instructions, Migrations, PageFaults, TaskClock,
    };
    use super::*;

    const ENOENT: i32 = 2;
    const EINVAL: i32 = 22;

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
            (Cycles, kernel::PERF_TYPE_HARDWARE, kernel::PERF_COUNT_HW_CPU_CYCLES),
            (Instructions, kernel::PERF_TYPE_HARDWARE, kernel::PERF_COUNT_HW_INSTRUCTIONS),
            (CacheMisses, kernel::PERF_TYPE_HARDWARE, kernel::PERF_COUNT_HW_CACHE_MISSES),
            (BranchMisses, kernel::PERF_TYPE_HARDWARE, kernel::PERF_COUNT_HW_BRANCH_MISSES),
            (TaskClock, kernel::PERF_TYPE_SOFTWARE, kernel::PERF_COUNT_SW_TASK_CLOCK),
            (PageFaults, kernel::PERF_TYPE_SOFTWARE, kernel::PERF_COUNT_SW_PAGE_FAULTS),
            (ContextSwitches, kernel::PERF_TYPE_SOFTWARE, kernel::PERF_COUNT_SW_CONTEXT_SWITCHES),
            (Migrations, kernel::PERF_TYPE_SOFTWARE, kernel::PERF_COUNT_SW_CPU_MIGRATIONS),
        ] {
            let wanted = event.wanted(false);
            assert_eq!((wanted.of_type, wanted.config), (of_type, config.into()), "{event}");
            assert_eq!(event.is_hardware(), of_type == kernel::PERF_TYPE_HARDWARE);
        }
    }

    #[test]
    fn a_reason_says_what_to_do() {
        assert_eq!(MissingEvent::new(Cycles, 2).to_string(), "cycles: this machine has no counter for it");
        assert!(reason(24).contains("RLIMIT_NOFILE"));
        assert!(reason(13).starts_with("not permitted"));
    }

    fn events(counted: &[Counted]) -> Vec<PerfEvent> {
        counted.iter().map(|it| it.event).collect()
    }

    #[test]
    fn events_of_the_processor_are_preferred() {
        let (counted, missing) = choose(None, false, |_| Ok(()));
        assert_eq!(events(&counted), PerfEvent::HARDWARE);
        assert!(counted.iter().all(|it| it.user_mode_only) && missing.is_empty());
        let (counted, _) = choose(None, true, |_| Ok(()));
        assert!(counted.iter().all(|it| !it.user_mode_only));
    }

    #[test]
    fn a_machine_with_one_counter_uses_it() {
        let one = |it: Counted| if it.event == Instructions { Ok(()) } else { Err(EINVAL) };
        let (counted, missing) = choose(None, false, one);
        assert_eq!(events(&counted), [Instructions]);
        assert_eq!(missing, [Cycles, CacheMisses, BranchMisses].map(|it| MissingEvent::new(it, EINVAL)));
    }

    #[test]
    fn a_machine_without_counters_uses_events_of_the_kernel() {
        let none = |it: Counted| if it.event.is_hardware() { Err(ENOENT) } else { Ok(()) };
        let (counted, missing) = choose(None, false, none);
        assert_eq!(events(&counted), PerfEvent::SOFTWARE);
        assert_eq!(missing, PerfEvent::HARDWARE.map(|it| MissingEvent::new(it, ENOENT)));
        // Events that were not asked for are not added.
        assert_eq!(choose(Some(&[Cycles]), false, none), (vec![], vec![MissingEvent::new(Cycles, ENOENT)]));
        let (counted, missing) = choose(Some(&[PageFaults, Cycles, PageFaults, Cycles]), false, none);
        assert_eq!((events(&counted), missing.len()), (vec![PageFaults], 1), "each once");
    }

    #[test]
    fn without_permission_only_user_mode_is_counted() {
        let user_mode = |it: Counted| if it.user_mode_only { Ok(()) } else { Err(EACCES) };
        let (counted, missing) = choose(Some(&[TaskClock, PageFaults, ContextSwitches]), false, user_mode);
        assert_eq!(counted, [TaskClock, PageFaults].map(|event| Counted { event, user_mode_only: true }));
        assert_eq!(missing, [MissingEvent::new(ContextSwitches, EACCES)]);
        assert_eq!(counted.iter().map(|it| it.leaves_kernel_out()).collect::<Vec<_>>(), [false, true]);
    }
}
