//! The thread that waits for clients.

use std::io;
use std::path::PathBuf;
use std::process;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use probe_protocol::{Listener, remove_all_stale};

use super::answer::refuse;
use super::attachments::ClientAttachment;
use super::state::{self, Arrived, lock};
use super::{end, say, session, starter, threads};
use crate::engine::error::Error;
use crate::engine::os;
use crate::engine::os::fork;
use crate::engine::os::signal_mask::SignalsBlocked;
#[cfg(feature = "modules")]
use crate::modules;
#[cfg(feature = "finstrument")]
use crate::{finstrument, sleds};

/// The thread's name.
const NAME: &str = "probe-agent";

/// The time until the next client is accepted, where the system had no descriptor or no memory for
/// one.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

/// Why no agent starts while [`start`] returns `None`.
pub(super) const ENDING: &str = "the agent before this one ends at this moment; try again";

/// Starts the agent that the program has asked for, which stays. Waits for the attachment of the
/// client that has started the program.
pub(in crate::session::agent) fn start_here() -> Result<PathBuf, Error> {
    #[cfg(probe_backend = "patched")]
    super::outside::announce();
    let path = start(true, false)?.ok_or_else(|| Error::Agent { problem: ENDING.to_owned() })?;
    starter::await_attachment();
    Ok(path)
}

/// Starts the agent. If there is one, it may have to stay from now on. One that is `from_outside`
/// discovers the functions whose hooks were bound elsewhere. `None` if the one before is ending.
pub(super) fn start(stays: bool, from_outside: bool) -> Result<Option<PathBuf>, Error> {
    state::require()?;
    // Detaching must not hold the lock: it waits for hits, which may be on threads that fork.
    drop(inherited());
    let mut state = lock();
    if state.is_leaving {
        return Ok(None);
    }
    if let Some(listener) = &state.listener {
        let path = listener.path().to_owned();
        state.stays |= stays;
        return Ok(Some(path));
    }
    let listener = Listener::bind(process::id()).map_err(|it| Error::Agent { problem: it.to_string() })?;
    end::prepare_exit();
    // A process's first barrier takes tens of milliseconds from its second thread on, and seconds
    // on a loaded machine. If there is another thread already, a client's thread waits for it.
    if threads() == 1 {
        os::heavy_barrier();
    }
    let listener = Arc::new(listener);
    let path = listener.path().to_owned();
    let masked = SignalsBlocked::new();
    let of_thread = Arc::clone(&listener);
    let serve = move || {
        #[cfg(feature = "modules")]
        if from_outside && let Err(error) = modules::find_named() {
            say(&error.to_string());
        }
        if from_outside {
            // Clients wait for that, and no thread of the program does.
            #[cfg(feature = "finstrument")]
            {
                finstrument::redirect();
                finstrument::look_ahead();
                sleds::look_ahead();
            }
        }
        listen(&of_thread);
        if from_outside {
            #[cfg(feature = "finstrument")]
            finstrument::stop_redirecting();
        }
        give_up(&of_thread);
    };
    let thread = thread::Builder::new().name(NAME.to_owned()).spawn(serve);
    drop(masked);
    if let Err(error) = thread {
        listener.remove();
        return Err(Error::Thread(error));
    }
    state.listener = Some(listener);
    (state.stays, state.was_used) = (stays, false);
    Ok(Some(path))
}

/// Takes out the attachments of the process that this one was forked from.
fn inherited() -> Vec<Arc<ClientAttachment>> {
    let mut state = lock();
    if state.process != fork::process() {
        // A bare `clone` has run no hooks.
        state::close_inherited(&mut state);
        state.process = fork::process();
    }
    state.inherited()
}

/// Lets the program start another agent.
fn give_up(listener: &Arc<Listener>) {
    let mut state = lock();
    if state.listener.as_ref().is_some_and(|it| Arc::ptr_eq(it, listener)) {
        state.listener = None;
        state.is_leaving = false;
        listener.remove();
    }
}

fn listen(listener: &Listener) {
    listener.path().parent().into_iter().for_each(remove_all_stale);
    let mut has_failed = false;
    loop {
        if let Err(error) = listener.wait() {
            return say(&format!("no more clients are served: {error}"));
        }
        let accepted = {
            let mut state = lock();
            if state.is_leaving {
                return;
            }
            state.accept(listener)
        };
        match accepted {
            Ok(Some(arrived)) => serve(arrived),
            Ok(None) => (),
            Err(error) if is_closed(&error) => {
                return say("no more clients are served: the program has closed the agent's socket");
            }
            Err(error) => {
                if !has_failed {
                    say(&format!("a client can't be served: {error}"));
                }
                has_failed = true;
                thread::sleep(AFTER_FAILURE);
                continue;
            }
        }
        has_failed = false;
    }
}

fn is_closed(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EBADF | libc::ENOTSOCK | libc::EINVAL))
}

fn serve(arrived: Arrived) {
    match arrived {
        Arrived::Served { number, channel, peer } => session::start(number, &channel, peer),
        Arrived::Refused(channel, failure) => refuse(&channel, failure),
    }
}
