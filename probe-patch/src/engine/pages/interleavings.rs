//! Guards and batches of several threads on the same pages, in every interleaving, with a kernel of
//! three pages: `RUSTFLAGS='--cfg loom' cargo test --release -p probe-patch --lib interleavings`.
//!
//! Guards write while they don't hold the mutex. So each write is checked to find its page
//! writable. In the end, each page has to have its former rights.

use std::io;
use std::ops::Range;

use loom::sync::{Arc, Mutex};
use loom::thread;

use super::shared::Pages;
use crate::os::maps::{Mapping, Rights};

const PAGE: usize = 4096;
/// The address of the first page.
const START: usize = 16 * PAGE;
const DATA: Rights = Rights { read: true, write: true, execute: false };
/// The pages' former rights: two pages of code, then one that was writable.
const FORMER: [Rights; 3] = [Rights::TEXT, Rights::TEXT, DATA];

loom::lazy_static! {
    static ref KERNEL: Mutex<[Rights; 3]> = Mutex::new(FORMER);
}

/// The kernel's table of mappings.
pub(super) struct Maps;

impl Maps {
    #[expect(clippy::unnecessary_wraps, reason = "the same call as the system's")]
    pub(super) fn open() -> io::Result<Self> {
        Ok(Self)
    }

    /// Neighbours with the same rights are one mapping, as in the kernel.
    #[expect(clippy::unnecessary_wraps, clippy::unused_self, reason = "the same call as the system's")]
    pub(super) fn holding(&mut self, addr: usize) -> io::Result<Option<Mapping>> {
        let rights = *KERNEL.lock().unwrap();
        let Some(page) = addr.checked_sub(START).map(|offset| offset / PAGE).filter(|page| *page < 3) else {
            return Ok(None);
        };
        let first = (0..page).rev().take_while(|at| rights[*at] == rights[page]).last().unwrap_or(page);
        let end = (page..3).take_while(|at| rights[*at] == rights[page]).last().map_or(page, |at| at + 1);
        Ok(Some(Mapping { range: START + first * PAGE..START + end * PAGE, rights: rights[page] }))
    }
}

/// mprotect(2).
#[expect(clippy::unnecessary_wraps, reason = "the same call as the system's")]
pub(super) fn protect(pages: &Range<usize>, rights: Rights) -> io::Result<()> {
    KERNEL.lock().unwrap()[(pages.start - START) / PAGE..(pages.end - START) / PAGE].fill(rights);
    Ok(())
}

/// Returns a page's own answer.
pub(super) fn is_writable(addr: usize) -> Option<bool> {
    Some(KERNEL.lock().unwrap()[(addr - START) / PAGE].write)
}

fn pages(pages: Range<usize>) -> Range<usize> {
    START + pages.start * PAGE..START + pages.end * PAGE
}

/// Writes to the first byte of each page.
fn write(at: Range<usize>) {
    assert!(KERNEL.lock().unwrap()[at].iter().all(|rights| rights.write), "a write to a sealed page");
}

/// Opens, writes and closes as `OpenText` does.
fn guard(all: &Mutex<Pages>, at: Range<usize>) {
    let whole = pages(at.clone());
    let epoch = all.lock().unwrap().open(&whole).unwrap();
    write(at);
    all.lock().unwrap().close(&whole, epoch).unwrap();
}

/// Writes as `WritableRuns` does.
fn batch(all: &Mutex<Pages>, at: Range<usize>) {
    let mut locked = all.lock().unwrap();
    locked.write(&pages(at.clone()), || write(at)).unwrap().unwrap();
}

type Act = fn(&Mutex<Pages>);

fn check(acts: &'static [Act]) {
    loom::model(move || {
        let all = Arc::new(Mutex::new(Pages::new()));
        let threads: Vec<_> = (acts[1..].iter())
            .map(|act| {
                let all = Arc::clone(&all);
                thread::spawn(move || act(&all))
            })
            .collect();
        acts[0](&all);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(*KERNEL.lock().unwrap(), FORMER);
        assert_eq!(all.lock().unwrap().unrestored(), 0);
    });
}

#[test]
fn guards_that_overlap_leave_what_was_there() {
    check(&[|all| guard(all, 0..2), |all| guard(all, 1..3)]);
}

#[test]
fn a_batch_seals_nothing_under_a_guard() {
    check(&[|all| guard(all, 0..2), |all| batch(all, 1..3)]);
}

#[test]
fn a_second_batch_goes_by_what_the_first_has_learnt() {
    check(&[
        |all| {
            batch(all, 0..1);
            batch(all, 0..3);
        },
        |all| guard(all, 0..1),
    ]);
}

#[test]
fn three_threads() {
    check(&[|all| guard(all, 0..1), |all| guard(all, 0..2), |all| batch(all, 1..2)]);
}
