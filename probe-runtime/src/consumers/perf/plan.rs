//! Chooses the events to count: once, when the consumer is attached, on the attaching thread.

use super::event::{MissingEvent, PerfEvent};
use crate::engine::os::perf::{Descriptor, ProcessNumber};

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
    const NOT_PERMITTED: [i32; 2] = [1, 13];
    let user_mode_only = event.is_hardware() && !in_kernel;
    let mut counted = Counted { event, user_mode_only };
    let mut opened = open(counted);
    if opened.is_err_and(|error| NOT_PERMITTED.contains(&error)) && !user_mode_only && event.has_user_mode() {
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
        BranchMisses, CacheMisses, ContextSwitches, Cycles, Instructions, PageFaults, TaskClock,
    };
    use super::*;

    const ENOENT: i32 = 2;
    const EACCES: i32 = 13;
    const EINVAL: i32 = 22;

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
