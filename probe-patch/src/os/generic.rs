//! Any other system, where nothing is patched; and of Linux, for crates above that patch nothing.

/// There is no `fork`.
#[cfg(any(not(unix), miri))]
pub mod fork {
    /// There is but one.
    pub fn process() -> u64 {
        1
    }

    /// Does nothing.
    pub fn install(_before: extern "C" fn(), _parent: extern "C" fn(), _child: extern "C" fn()) {}
}

/// Cancellation is the C library's; the standard library has none.
pub mod cancel {
    /// Does nothing.
    pub struct Uncancellable(());

    impl Uncancellable {
        pub fn new() -> Self {
            Self(())
        }
    }
}

/// Nothing leads from one binary into another, and a thread that has been in its code keeps it
/// loaded.
pub mod pin {
    /// The object that can't be kept, and why.
    pub struct Unpinned {
        pub object: String,
        pub reason: String,
    }

    /// Nothing needs to be kept.
    ///
    /// # Errors
    /// None.
    pub fn pin() -> Result<(), Unpinned> {
        Ok(())
    }

    /// Nothing needs to be kept.
    ///
    /// # Errors
    /// None.
    pub fn pin_object(_address: usize) -> Result<(), Unpinned> {
        Ok(())
    }
}
