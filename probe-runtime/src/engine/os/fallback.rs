//! Services on systems that lack them, each with the contract of the real one.

/// Where no code is patched: Linux's memory and threads, and any other system by the standard
/// library alone.
#[cfg(not(probe_backend = "patched"))]
pub(crate) mod unpatched {
    #[cfg(probe_system = "linux")]
    pub(crate) use probe_patch::__runtime::os::{memory, thread};

    /// Memory for slots.
    #[cfg(not(probe_system = "linux"))]
    pub(crate) mod memory {
        // Safety: relies on the allocator's contract alone.
        #![expect(unsafe_code, reason = "see above")]

        use std::alloc::{GlobalAlloc, Layout, System};
        use std::ptr;

        /// Returns zeroed memory that is never freed; null if there is none. It is from the
        /// system's allocator, since the program's own allocator may contain a probe.
        pub(crate) fn zeroed(len: usize) -> *mut u8 {
            match Layout::from_size_align(len, 4096) {
                // SAFETY: `len` is not zero.
                Ok(layout) if len != 0 => unsafe { System.alloc_zeroed(layout) },
                _ => ptr::null_mut(),
            }
        }

        /// Frees memory.
        ///
        /// # Safety
        /// The memory is from [`zeroed`], of this length, and no thread uses it any more.
        pub(crate) unsafe fn give_back(start: *mut u8, len: usize) {
            if let Ok(layout) = Layout::from_size_align(len, 4096) {
                // SAFETY: `zeroed` has allocated it with this layout.
                unsafe { System.dealloc(start, layout) };
            }
        }
    }

    /// Threads.
    #[cfg(not(probe_system = "linux"))]
    pub(crate) mod thread {
        // Safety: relies on callers, who pass only values that the installed call may take.
        #![expect(unsafe_code, reason = "see above")]

        use std::cell::Cell;
        use std::ffi::c_void;
        use std::ptr;
        use std::sync::OnceLock;
        use std::sync::atomic::{AtomicU32, Ordering};

        type OnExit = unsafe extern "C" fn(*mut c_void);

        static ON_EXIT: OnceLock<OnExit> = OnceLock::new();

        struct AtExit(Cell<*mut c_void>);

        impl Drop for AtExit {
            fn drop(&mut self) {
                if let (Some(call), false) = (ON_EXIT.get(), self.0.get().is_null()) {
                    // SAFETY: the installed call gets the value that this thread has set.
                    unsafe { call(self.0.get()) };
                }
            }
        }

        std::thread_local! {
            static ID: Cell<u32> = const { Cell::new(0) };
            static AT_EXIT: AtExit = const { AtExit(Cell::new(ptr::null_mut())) };
        }

        /// Returns a number for this thread, from 1.
        pub(crate) fn id() -> u32 {
            static NEXT: AtomicU32 = AtomicU32::new(1);
            if ID.get() == 0 {
                ID.set(NEXT.fetch_add(1, Ordering::Relaxed));
            }
            ID.get()
        }

        /// Returns 1 for the only process.
        pub(crate) fn process() -> u32 {
            1
        }

        /// Returns 0: the birth is not known, and not needed, since numbers are not reused.
        pub(crate) fn birth(_id: u32) -> u64 {
            0
        }

        /// Returns `true`: the state is not known, and not needed, since `on_exit` is reliable.
        pub(crate) fn is_alive(_id: u32, _birth: u64) -> bool {
            true
        }

        /// Prepares [`on_exit`].
        pub(crate) fn install(call: OnExit) {
            let _ = ON_EXIT.set(call);
        }

        /// Returns whether [`on_exit`] works.
        pub(crate) fn tells_exit() -> bool {
            true
        }

        /// Passes `value` to the installed call when this thread ends.
        ///
        /// # Safety
        /// The installed call may take `value`.
        pub(crate) unsafe fn on_exit(value: *mut c_void) {
            let _ = AT_EXIT.try_with(|at_exit| at_exit.0.set(value));
        }

        /// Returns an empty name, since the name is not known.
        pub(crate) fn name() -> [u8; 16] {
            [0; 16]
        }

        /// Returns 0, since there is no errno.
        pub(crate) fn errno() -> i32 {
            0
        }

        /// Does nothing, since there is no errno.
        pub(crate) fn set_errno(_errno: i32) {}

        /// Returns null, since there is no errno.
        pub(crate) fn errno_place() -> *mut i32 {
            ptr::null_mut()
        }

        /// A guard without effect, since there is no errno.
        pub(crate) struct Errno(());

        impl Errno {
            /// # Safety
            /// None.
            pub(crate) unsafe fn keep(_at: *mut i32) -> Self {
                Self(())
            }

            #[expect(clippy::unused_self, reason = "the same call as where it is kept")]
            pub(crate) fn restore(self) {}
        }
    }

    /// Each binary has only its own probes, so other objects need not stay loaded.
    pub(crate) mod objects {
        use std::marker::PhantomData;

        /// No object needs to stay.
        pub(crate) struct Frozen(());

        /// No object needs to stay.
        #[derive(Clone, Copy)]
        pub(crate) struct KeptLoaded<'a>(PhantomData<&'a Frozen>);

        impl KeptLoaded<'_> {
            pub(crate) fn always() -> Self {
                Self(PhantomData)
            }
        }

        /// Runs `run`.
        pub(crate) fn freeze<T>(run: impl FnOnce(&Frozen) -> T) -> T {
            run(&Frozen(()))
        }
    }

    /// Executes the detaching thread's half of a pair of fences. The other half is the backend's
    /// `light_barrier`, which is a full fence here.
    pub(crate) fn heavy_barrier() -> bool {
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        true
    }
}

/// A wait with a limit, for systems without signals.
#[cfg(not(all(unix, not(miri))))]
pub(crate) mod signal_catcher {
    use std::io;
    use std::sync::{Condvar, Mutex, PoisonError};
    use std::time::{Duration, Instant};

    /// A signal. No value exists.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub(crate) enum Signal {}

    impl Signal {
        pub(crate) const ENDS: &[Self] = &[];

        pub(crate) fn names() -> impl Iterator<Item = &'static str> {
            [].into_iter()
        }

        pub(crate) fn named(_name: &str) -> Option<Self> {
            None
        }

        pub(crate) fn name(self) -> &'static str {
            match self {}
        }
    }

    /// The reason why a wait ended.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub(crate) enum WakeReason {
        Stopped,
        TimedOut,
        LookRequested,
        Signal(Signal),
    }

    /// A wait that can be stopped.
    #[derive(Debug)]
    pub(crate) struct SignalCatcher {
        is_stopped: Mutex<bool>,
        stop: Condvar,
    }

    impl SignalCatcher {
        #[expect(clippy::unnecessary_wraps, reason = "elsewhere it takes descriptors")]
        pub(crate) fn new() -> io::Result<Self> {
            Ok(Self { is_stopped: Mutex::new(false), stop: Condvar::new() })
        }

        pub(crate) fn install(&self, _ends: &[Signal], _others: &[Signal]) -> Vec<Signal> {
            Vec::new()
        }

        pub(crate) fn ends(signal: Signal) -> bool {
            match signal {}
        }

        pub(crate) fn wait(&self, until: Option<Instant>) -> WakeReason {
            let mut is_stopped = self.is_stopped.lock().unwrap_or_else(PoisonError::into_inner);
            while !*is_stopped {
                let left =
                    until.map_or(Duration::MAX, |until| until.saturating_duration_since(Instant::now()));
                if left.is_zero() {
                    return WakeReason::TimedOut;
                }
                let waited = self.stop.wait_timeout(is_stopped, left).unwrap_or_else(PoisonError::into_inner);
                is_stopped = waited.0;
            }
            WakeReason::Stopped
        }

        pub(crate) fn stop(&self) {
            *self.is_stopped.lock().unwrap_or_else(PoisonError::into_inner) = true;
            self.stop.notify_all();
        }

        pub(crate) fn end(signal: Signal) {
            match signal {}
        }
    }
}

/// Threads of a system without signals.
#[cfg(not(all(unix, not(miri))))]
pub(crate) mod signal_mask {
    pub(crate) fn without_write_signals<T, E>(write: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        write()
    }

    /// A guard without effect.
    pub(crate) struct SignalsBlocked(());

    impl SignalsBlocked {
        pub(crate) fn new() -> Self {
            Self(())
        }
    }

    pub(crate) fn minimise_timer_slack() {}
}

/// A system on which files are not mapped.
#[cfg(not(all(target_os = "linux", not(miri))))]
pub(crate) mod mapped_file {
    use std::convert::Infallible;
    use std::ffi::CStr;
    use std::io;
    use std::sync::atomic::AtomicU64;

    /// Memory of a file. No value exists.
    #[derive(Debug)]
    pub(crate) struct MappedFile(Infallible);

    /// The sizes of a file's parts.
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct PartSizes {
        pub(crate) first: usize,
        pub(crate) other: usize,
        pub(crate) all: usize,
    }

    impl MappedFile {
        pub(crate) fn new(_private: usize, _shared: PartSizes) -> io::Result<Self> {
            Err(io::Error::new(io::ErrorKind::Unsupported, "files can be mapped on Linux only"))
        }

        pub(crate) fn private_start(&self) -> usize {
            match self.0 {}
        }

        pub(crate) fn shared_start(&self) -> usize {
            match self.0 {}
        }

        pub(crate) fn put(&self, _file: &NewFile) -> Result<(), i32> {
            match self.0 {}
        }

        pub(crate) fn put_private(&self) -> Result<(), i32> {
            match self.0 {}
        }

        pub(crate) fn is_cut_off(&self) -> bool {
            match self.0 {}
        }
    }

    pub(crate) fn page_size() -> usize {
        4096
    }

    /// A file that nobody makes.
    #[derive(Debug)]
    pub(crate) struct NewFile(Infallible);

    impl NewFile {
        pub(crate) fn create(_path: &CStr) -> Result<Self, i32> {
            Err(0)
        }

        pub(crate) fn id(&self) -> FileId {
            match self.0 {}
        }

        pub(crate) fn reserve(&self, _bytes: usize) -> Result<(), i32> {
            match self.0 {}
        }

        pub(crate) fn write(&self, _bytes: &[u8], _at: usize) -> Result<(), i32> {
            match self.0 {}
        }

        pub(crate) fn write_words(&self, _words: &[AtomicU64], _at: usize) -> Result<(), i32> {
            match self.0 {}
        }
    }

    /// The number by which the system tells a file from all others.
    #[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
    pub(crate) struct FileId(pub(crate) [u64; 2]);

    pub(crate) const TOO_LONG: i32 = 0;

    pub(crate) fn id(_path: &CStr) -> Option<FileId> {
        None
    }

    pub(crate) fn remove(_path: &CStr) {}

    /// Nothing, since there is no error number.
    #[derive(Debug)]
    pub(crate) struct KeptErrno(());

    impl KeptErrno {
        pub(crate) fn new() -> Self {
            Self(())
        }
    }
}

/// Systems whose kernel has no events, or can't be asked for them. No event can be opened.
#[cfg(all(
    feature = "perf",
    not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))
))]
pub(crate) mod perf {
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

    /// An event's descriptor. No event can be opened.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub(crate) struct Descriptor(pub(crate) i32);

    /// An event's page. No event can be opened.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub(crate) struct Page(pub(crate) usize);

    /// The records of a thread's switches. There are none.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub(crate) struct SwitchBuffer(pub(crate) usize);

    /// The kernel's latest step with a thread.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[allow(dead_code, reason = "there are no records")]
    pub(crate) enum Turn {
        On,
        Blocked,
        Ready,
        Ended,
    }

    /// The kernel has taken the thread off a processor, or put it on one.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub(crate) struct Switch {
        pub(crate) turn: Turn,
        pub(crate) time: u64,
        pub(crate) processor: u32,
    }

    /// The number of the only process.
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct ProcessNumber(());

    /// The greatest number of events in a group.
    pub(crate) const MAX_GROUP_EVENTS: usize = 8;

    /// The error number that Linux calls `ENOSYS`.
    const NO_SUCH_CALL: i32 = 38;

    impl Descriptor {
        pub(crate) fn open(_: EventConfig, _: Option<Self>) -> Result<Self, i32> {
            Err(NO_SUCH_CALL)
        }

        pub(crate) fn move_to_high_number(self) -> Self {
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
    }

    #[expect(unsafe_code, reason = "the same as where there are some")]
    impl Page {
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

    #[expect(unsafe_code, reason = "the same as where there are some")]
    /// A system call in which a thread waits.
    #[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
    pub(crate) struct SystemCall {
        pub(crate) name: [u64; 2],
        pub(crate) argument: u64,
    }

    pub(crate) fn system_call(_thread: u32) -> Option<SystemCall> {
        None
    }

    pub(crate) fn turns(_thread: u32) -> Option<u64> {
        None
    }

    pub(crate) fn tells_calls() -> bool {
        false
    }

    impl SwitchBuffer {
        pub(crate) fn open() -> Result<Self, i32> {
            Err(NO_SUCH_CALL)
        }

        pub(crate) fn unmap(self) {}

        /// # Safety
        /// None: there are no records.
        pub(crate) unsafe fn end(self) -> u64 {
            0
        }

        /// # Safety
        /// None: there are no records.
        pub(crate) unsafe fn read(self, _from: u64, _each: impl FnMut(Option<Switch>)) -> u64 {
            0
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

    pub(crate) fn preserve_errno<T>(body: impl FnOnce() -> T) -> T {
        body()
    }
}
