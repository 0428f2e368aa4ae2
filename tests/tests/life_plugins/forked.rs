//! Forked children of programs with plugins.

use std::sync::atomic::{AtomicU64, Ordering};

use probe_runtime::registry::ProbeState;
use probe_runtime::{Consumer, Event, probes, select};
use probe_tests::library::Library;

use super::plugin;

/// Counts its calls, and needs a thread.
#[derive(Default)]
struct Calls(AtomicU64);

impl Consumer for Calls {
    fn needs_thread(&self) -> bool {
        true
    }

    fn hit(&self, _event: &Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// The child does not touch unloaded sites. It does not call consumers of loaded sites, and makes
/// these sites latent at its first operation.
pub(super) fn fork() {
    let library = Library::open(&plugin("plugin"));
    let gone = Library::open(&plugin("caller"));
    let calls = select("plugin::each, caller::**").unwrap().attach(Calls::default()).unwrap();
    let sum = library.function("plugin_sum");
    assert_eq!(sum(3), 6);
    assert_eq!(calls.0.load(Ordering::Relaxed), 6);
    // No operation has noticed the unloading when the child begins.
    gone.close();
    // SAFETY: the child calls the runtime alone, which takes its lock across the fork.
    let child = unsafe { libc::fork() };
    if child == 0 {
        assert_eq!(sum(3), 6);
        assert_eq!(calls.0.load(Ordering::Relaxed), 6);
        assert!(calls.failure().is_some_and(|failure| failure.starts_with("left behind")));
        let is_active = |probe: &probe_runtime::ProbeInfo| probe.state() == ProbeState::Active;
        assert!(!probes().iter().any(is_active));
        assert_eq!(calls.detach().patched(), 0, "they were latent already");
        // SAFETY: ends this process at once.
        unsafe { libc::_exit(0) };
    }
    let mut status = -1;
    // SAFETY: `status` is a place for the result.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "the child's assertion is on stderr");
    assert_eq!(sum(3), 6);
    assert_eq!((calls.0.load(Ordering::Relaxed), calls.failure()), (12, None));
    assert_eq!(calls.detach().patched(), 2);
    library.close();
}
