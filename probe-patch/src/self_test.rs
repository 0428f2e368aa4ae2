//! Proves on the present machine that patching works, for programs that want this proof before they
//! arm any probe.

use std::{error, fmt};

/// The result of a successful [`self_test`].
///
/// ```
/// let seen = probe_patch::self_test()?;
/// println!("{} patches, {} traps: {seen}", seen.patches, seen.traps);
/// # Ok::<(), probe_patch::SelfTestError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct SelfTest {
    /// Number of patches that were made and checked; 0 if this build does not patch.
    pub patches: u64,
    /// Number of calls that another thread made meanwhile. Each executed the old or the new
    /// instruction.
    pub calls: u64,
    /// Number of traps of threads that ran into a patch under way.
    pub traps: u64,
    /// Whether membarrier(2) makes threads see a change. If not, patches change a page's rights for
    /// that.
    pub has_membarrier: bool,
}

/// Patches functions of its own, in this crate's text: an instruction in one word, and one that
/// lies across two cache lines. Each is patched at once, through a trap, while this thread runs
/// into the trap, and while another thread executes it. Checks the bytes before each patch, and
/// each result.
///
/// Takes some milliseconds, and installs the handler of `SIGTRAP` that patching through traps
/// needs. In builds that don't patch (other targets, `--cfg probe_portable`) there is nothing to
/// test.
///
/// # Errors
/// [`SelfTestError`] names the path that does not work here, and why.
///
/// ```
/// let seen = probe_patch::self_test()?;
/// println!("{seen}");
/// # Ok::<(), probe_patch::SelfTestError>(())
/// ```
pub fn self_test() -> Result<SelfTest, SelfTestError> {
    #[cfg(probe_backend = "patched")]
    return crate::engine::self_test::run();
    #[cfg(not(probe_backend = "patched"))]
    Ok(SelfTest::default())
}

impl fmt::Display for SelfTest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.patches == 0 {
            return write!(f, "this build does not patch code");
        }
        let barrier = if self.has_membarrier { "membarrier" } else { "page rights (no membarrier)" };
        write!(
            f,
            "{} patches, {} calls, {} traps: all as expected; barrier: {barrier}",
            self.patches, self.calls, self.traps
        )
    }
}

/// A failure of the [`self_test`].
///
/// ```
/// if let Err(error) = probe_patch::self_test() {
///     println!("patching {} instructions does not work here: {}", error.path, error.problem);
/// }
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct SelfTestError {
    /// The kind of instruction: `aligned` or `straddling`.
    pub path: &'static str,
    /// The observation that shows the failure.
    pub problem: String,
}

impl fmt::Display for SelfTestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "patching code does not work here: {} instruction: {}", self.path, self.problem)
    }
}

impl error::Error for SelfTestError {}
