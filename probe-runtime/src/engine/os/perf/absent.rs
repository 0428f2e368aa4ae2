//! Systems whose kernel has no events, or can't be asked for them. No event can be opened.

#![expect(clippy::unused_self, reason = "the same as where there are some")]

/// The event to count.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct EventConfig {
    pub(crate) of_type: u32,
    pub(crate) config: u64,
    pub(crate) user_mode_only: bool,
}

/// The times for which an event was enabled, and for which it counted.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct EventTimes {
    pub(crate) enabled: u64,
    pub(crate) running: u64,
}

/// A descriptor: there is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Descriptor(());

/// A page: there is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Page(());

/// The number of the only process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProcessNumber(());

/// The greatest number of events in a group.
pub(crate) const MOST: usize = 8;

/// The error number that Linux calls `ENOSYS`.
const NO_SUCH_CALL: i32 = 38;

impl Descriptor {
    pub(crate) fn open(_: EventConfig, _: Option<Self>) -> Result<Self, i32> {
        Err(NO_SUCH_CALL)
    }

    pub(crate) fn out_of_the_way(self) -> Self {
        self
    }

    pub(crate) fn id(self) -> Option<u64> {
        None
    }

    pub(crate) fn close(self, _id: u64) {}

    pub(crate) fn map(self) -> Result<Page, i32> {
        Err(NO_SUCH_CALL)
    }

    pub(crate) fn read(self, _values: &mut [u64]) -> Option<EventTimes> {
        None
    }

    pub(crate) fn number(self) -> i32 {
        0
    }

    pub(crate) fn from_number(_: i32) -> Self {
        Self(())
    }
}

#[expect(unsafe_code, reason = "the same as where there are some")]
impl Page {
    pub(crate) fn number(self) -> usize {
        0
    }

    pub(crate) fn from_number(_: usize) -> Self {
        Self(())
    }

    pub(crate) fn unmap(self) {}

    /// # Safety
    /// None: there are no pages.
    pub(crate) unsafe fn count(self) -> Option<u64> {
        None
    }

    /// # Safety
    /// None: there are no pages.
    pub(crate) unsafe fn time(self) -> Option<u64> {
        None
    }

    /// # Safety
    /// None: there are no pages.
    pub(crate) unsafe fn is_counting(self) -> bool {
        false
    }

    /// # Safety
    /// None: there are no pages.
    pub(crate) unsafe fn times(self) -> EventTimes {
        EventTimes::default()
    }
}

#[expect(clippy::unnecessary_wraps, reason = "the same as where there are some")]
pub(crate) fn process() -> Option<ProcessNumber> {
    Some(ProcessNumber(()))
}

impl ProcessNumber {
    pub(crate) fn known(self) -> u64 {
        1
    }

    pub(crate) fn get(self) -> u64 {
        1
    }
}

pub(crate) fn paranoid() -> Option<i32> {
    None
}

pub(crate) fn keeping_errno<T>(body: impl FnOnce() -> T) -> T {
    body()
}
