//! Where no code is patched: Linux's memory and threads, and any other system by the standard
//! library alone.

#[cfg(probe_system = "linux")]
pub(crate) use probe_patch::__runtime::os::{memory, thread};

/// Memory for slots.
#[cfg(not(probe_system = "linux"))]
pub(crate) mod memory {
    // Safety: relies on the allocator's contract alone.
    #![expect(unsafe_code, reason = "see above")]

    use std::alloc::{GlobalAlloc, Layout, System};
    use std::ptr;

    /// Returns zeroed memory that is never freed; null if there is none. It is from the system's
    /// allocator, since the program's own allocator may contain a probe.
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
