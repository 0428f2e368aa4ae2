//! Proof, on the machine at hand, that patching works: for programs that want it before they arm
//! anything.

use probe_patch::SelfTestError;

use crate::engine::error::Error;

/// For programs with probes, whose [`self_test`] returns it:
///
/// ```
/// let seen = probe_runtime::patch::self_test()?;
/// println!("{} patches, {} traps: {seen}", seen.patches, seen.traps);
/// # Ok::<(), probe_runtime::Error>(())
/// ```
///
/// As the crate `probe-patch`, which makes the test, says it:
#[doc(inline)]
pub use probe_patch::SelfTest;

/// Patches functions of its own, in the text of `probe-patch`: an instruction in one word and one
/// that lies across two cache lines, while another thread executes it. Checks each result.
///
/// Takes some milliseconds, and installs the handler of `SIGTRAP` that patching through traps
/// needs. In builds that don't patch (other targets, `--cfg probe_portable`, `--cfg probe_off`)
/// there is nothing to test.
///
/// # Errors
/// [`Error::SelfTest`] names the path that does not work here, and why.
///
/// ```
/// let seen = probe_runtime::patch::self_test()?;
/// println!("{seen}");
/// # Ok::<(), probe_runtime::Error>(())
/// ```
pub fn self_test() -> Result<SelfTest, Error> {
    if cfg!(probe_backend = "off") {
        return Ok(SelfTest::default());
    }
    probe_patch::self_test().map_err(|SelfTestError { path, problem, .. }| Error::SelfTest { path, problem })
}
