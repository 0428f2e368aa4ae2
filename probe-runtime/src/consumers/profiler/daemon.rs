//! The thread that makes the profiler's polls.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};

use super::core::Core;
use crate::engine::error::Error;
use crate::engine::os::signal_mask::{self, SignalsBlocked};

/// The thread that polls. It receives none of the program's signals, and ends when this is dropped.
pub(super) struct Daemon {
    core: Arc<Core>,
    thread: Option<JoinHandle<()>>,
}

impl Daemon {
    pub(super) fn start(core: &Arc<Core>) -> Result<Self, Error> {
        let of_thread = Arc::clone(core);
        let masked = SignalsBlocked::new();
        let thread = thread::Builder::new().name("probe-profiler".to_owned()).spawn(move || {
            signal_mask::minimise_timer_slack();
            let watch = || {
                while !of_thread.is_over.load(Ordering::Acquire) {
                    thread::park_timeout(of_thread.poll(true));
                }
            };
            // The panic hook has printed the message. The program goes on.
            if catch_unwind(AssertUnwindSafe(watch)).is_err() {
                of_thread.give_up();
            }
        });
        drop(masked);
        Ok(Self { core: Arc::clone(core), thread: Some(thread.map_err(Error::Thread)?) })
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        if !self.core.is_here() {
            // The thread is the parent's, so waiting for it here would never end.
            std::mem::forget(thread);
            return;
        }
        self.core.is_over.store(true, Ordering::Release);
        thread.thread().unpark();
        // The thread catches panics, so this can't fail.
        let _ = thread.join();
    }
}
