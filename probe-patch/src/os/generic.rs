//! Other systems, where no code is patched; and Linux, for upper crates that patch no code.

/// No process forks here.
#[cfg(any(not(unix), miri))]
pub mod fork {
    /// Returns 1, the number of the only process.
    pub fn process() -> u64 {
        1
    }

    /// Does nothing.
    pub fn install(_before: extern "C" fn(), _parent: extern "C" fn(), _child: extern "C" fn()) {}
}

/// Only the C library can cancel a thread; the standard library can't.
pub mod cancel {
    /// Does nothing.
    pub struct Uncancellable(());

    impl Uncancellable {
        pub fn new() -> Self {
            Self(())
        }
    }
}

/// No code of one object leads into another. A thread that executes an object's code keeps it
/// loaded.
pub mod pin {
    /// The object that can't be kept, and the reason.
    pub struct Unpinned {
        pub object: String,
        pub reason: String,
    }

    /// Does nothing: no object needs to be kept.
    ///
    /// # Errors
    /// None.
    pub fn pin() -> Result<(), Unpinned> {
        Ok(())
    }

    /// Does nothing: no object needs to be kept.
    ///
    /// # Errors
    /// None.
    pub fn pin_object(_address: usize) -> Result<(), Unpinned> {
        Ok(())
    }
}
