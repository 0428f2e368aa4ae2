//! Reports while the program runs, and at its end.
//!
//! Life cycle: [`open`] adds an output to a list of the whole program ▸ when a guard drops,
//! [`close`] ends the triggers, reports, takes the attachments out and detaches ▸ when the process
//! exits, an `atexit` function ends the triggers that are left, and reports the attachments, which
//! stay attached.
//!
//! A report has three steps. The thread takes a number and a share of the attachments under the
//! list's lock ▸ it [renders](super::rendering) without the lock ▸ it writes under the lock, unless
//! a report with a later number, or the last one, was written meanwhile. So files and streams get
//! no older report after a newer one. A guard may drop while another thread calls `exit`: each
//! thread renders the last report, and the first that is ready writes it. `exit` waits at most
//! until another thread has written its pieces.
//!
//! The lock is taken across forks, before the control lock. A thread that holds it takes no lock of
//! the program's, and none of the standard library's that the program may hold: [`say`] writes to
//! stderr without one.
//!
//! [`report_all`] reports at intervals and at signals, [`report_and_end`] at one that ends the
//! program. A process that is killed, aborts, or becomes another program (`exec`) does not report.

use std::mem;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};

use super::forked;
use super::rendering::{AttachedConsumer, Output, Piece};
use crate::engine::control::init;
use crate::engine::os;
use crate::engine::os::cancel::Uncancellable;
use crate::engine::os::kept::Kept;
use crate::engine::os::stderr::print_line;
use crate::engine::os::{AcrossForks, Rank, Ready, room};
use crate::session::spec::Triggers;

static OUTPUTS: Mutex<Vec<ListedOutput>> = Mutex::new(Vec::new());

/// An output in the list, with the numbers of the last report that was begun and of the last one
/// that was written.
pub(super) struct ListedOutput {
    output: Output,
    begun: u64,
    written: u64,
    /// Whether the last report was written.
    ended: bool,
    triggers: Arc<Triggers>,
}

/// A guard's drop and an exit both report for the last time. When they meet, the first one to write
/// does.
#[derive(Clone, Copy, PartialEq)]
enum ReportTurn {
    Current,
    Last,
}

impl ListedOutput {
    /// Returns whether there is something to report.
    fn is_open(&self) -> bool {
        !self.ended && !self.output.attached.is_empty()
    }

    /// Returns whether a report may be written now, and records that it is. A later one must not
    /// have been written, nor the last one.
    fn begin_writing(&mut self, number: u64, report: ReportTurn) -> bool {
        let may = !self.ended && self.written < number;
        if may {
            self.written = number;
            self.ended = report == ReportTurn::Last;
        }
        may
    }
}

/// Index of an output in the list.
#[derive(Debug)]
pub(super) struct Ticket(usize);

/// Locks the list. While the lock is held, no other thread writes reports, exits, or forks.
pub(super) fn outputs() -> MutexGuard<'static, Vec<ListedOutput>> {
    init();
    READY.prepare();
    // The list is consistent after each step, so a panic under the lock does no harm.
    OUTPUTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds an output to the list, so that it reports at the end. Must come after the first operation
/// on probes.
///
/// # Errors
/// The first of its files to which another open output of this process reports.
pub(super) fn open(output: Output) -> Result<Ticket, PathBuf> {
    static AT_EXIT: Once = Once::new();
    AT_EXIT.call_once(|| {
        if !os::process::at_exit(at_exit) {
            print_line(
                "PROBES: the system has no room for a call at the program's exit (atexit); reports come \
                 when the guard drops, but not when the program exits before that",
            );
        }
    });
    let own = output.replaced();
    // This object may be pinned by now, even if that failed when the list was first locked. If it
    // still fails, nothing is attached.
    let _ = READY.require();
    let mut outputs = outputs();
    let (mut taken, mut inherited) = (None, Vec::new());
    for ListedOutput { output: other, triggers, .. } in outputs.iter_mut() {
        let Some(path) = other.replaced().into_iter().find(|path| own.contains(path)) else { continue };
        if other.process == output.process {
            taken = Some(path);
        } else {
            // The output is a parent's, and the parent reports it to a file of its own.
            inherited.push((mem::take(triggers), mem::take(&mut other.attached)));
        }
    }
    let opened = if let Some(path) = taken {
        Err((path, output))
    } else {
        outputs.push(ListedOutput { output, begun: 0, written: 0, ended: false, triggers: Arc::default() });
        // Closed outputs stay in the list, empty, so the index stays valid.
        Ok(Ticket(outputs.len() - 1))
    };
    drop(outputs);
    // Detaching must not hold the lock: it waits for hits, which may be on threads that fork.
    inherited.into_iter().for_each(|(triggers, attached)| {
        drop(triggers);
        detach(attached);
    });
    opened.map_err(|(path, _)| path)
}

/// Detaches the consumers. A thread that still renders their last report has a share of them, and
/// so has one that a fork left behind in the parent: then their sites become latent here, and the
/// last share detaches.
fn detach(attached: Arc<Vec<AttachedConsumer>>) {
    // A fork may also have left a trigger behind that had a share of one.
    let is_shared = |it: &&AttachedConsumer| Arc::strong_count(&it.reported) != 1;
    match Arc::try_unwrap(attached) {
        Err(shared) => shared.iter().for_each(|it| it.reported.pause()),
        Ok(own) => own.iter().filter(is_shared).for_each(|it| it.reported.pause()),
    }
}

/// Keeps the triggers of an output until it is closed.
pub(super) fn keep(ticket: &Ticket, triggers: Triggers) {
    outputs()[ticket.0].triggers = Arc::new(triggers);
}

/// Waits until the snapshots under way are written, before the program ends. No call triggers
/// another one.
pub(super) fn end_triggers() {
    let triggers: Vec<_> = outputs().iter().map(|listed| Arc::clone(&listed.triggers)).collect();
    triggers.iter().for_each(|triggers| triggers.end());
    // Detaching would wait for hits.
    triggers.into_iter().for_each(mem::forget);
}

/// Returns whether this is the forked child of a process that had an output.
pub(super) fn is_forked() -> bool {
    outputs().iter().any(|listed| listed.output.is_forked())
}

/// Writes the current reports of one output.
pub(super) fn report(ticket: &Ticket) {
    // Writing is a cancellation point.
    let _whole = Uncancellable::new();
    report_at(ticket.0, ReportTurn::Current);
}

/// Returns whether the report was written.
fn report_at(at: usize, report: ReportTurn) -> bool {
    let (number, output) = {
        let mut outputs = outputs();
        let listed = &mut outputs[at];
        listed.begun += 1;
        (listed.begun, listed.output.clone())
    };
    let pieces = output.render();
    let mut outputs = outputs();
    let may = outputs[at].begin_writing(number, report);
    if may {
        pieces.into_iter().for_each(Piece::write);
    }
    may
}

/// Writes the current reports of all outputs.
pub(super) fn report_all() {
    report_each(ReportTurn::Current);
}

/// Writes the reports of all outputs, then calls `then`, which ends the process, before another
/// thread can write or exit.
pub(super) fn report_and_end(then: impl FnOnce()) {
    report_each(ReportTurn::Current);
    let _outputs = outputs();
    forked::end();
    then();
}

fn report_each(report: ReportTurn) {
    let _whole = Uncancellable::new();
    let len = outputs().len();
    for at in 0..len {
        report_at(at, report);
    }
}

/// Writes the last reports of an output, and detaches its consumers.
pub(super) fn close(ticket: &Ticket) {
    let _whole = Uncancellable::new();
    // The list is not locked while the triggers write their last snapshots.
    let triggers = mem::take(&mut outputs()[ticket.0].triggers);
    triggers.end();
    drop(triggers);
    report_at(ticket.0, ReportTurn::Last);
    let attached = mem::take(&mut outputs()[ticket.0].output.attached);
    // Detaching waits for hits, which may be on threads that fork.
    detach(attached);
    let outputs = outputs();
    if !outputs.iter().any(ListedOutput::is_open) {
        forked::end();
    }
}

extern "C" fn at_exit() {
    end_triggers();
    report_each(ReportTurn::Last);
    let mut outputs = outputs();
    // Other threads may still hit probes. The process ends, so nothing needs to be detached.
    outputs.iter_mut().for_each(|listed| mem::forget(mem::take(&mut listed.output.attached)));
    forked::end();
}

thread_local! {
    static ACROSS_FORK: Kept<MutexGuard<'static, Vec<ListedOutput>>> = const { Kept::new() };
}

/// Forks take the list's lock.
static READY: Ready = room(Rank::Outer, ACROSS_FORKS, || ());

const ACROSS_FORKS: AcrossForks =
    AcrossForks { before: before_fork, in_parent: after_fork, in_child: after_fork_in_child };

fn before_fork() {
    let outputs = outputs();
    if outputs.iter().any(ListedOutput::is_open) {
        forked::before();
    }
    ACROSS_FORK.with(|kept| kept.keep(outputs));
}

fn after_fork() {
    drop(ACROSS_FORK.with(Kept::take));
}

fn after_fork_in_child() {
    if let Some(outputs) = ACROSS_FORK.with(Kept::take) {
        forked::in_child(outputs.iter().any(ListedOutput::is_open));
    }
}

#[cfg(test)]
pub(super) mod tests;
