//! Switches sites of a program while all of its threads are stopped.
//!
//! ```text
//! halt ▸ of each page: each site has the bytes expected? ▸ one write ▸ 8 ms are over: resume ▸ halt …
//! ```
//! The kernel copies the bytes of one page at once, and a site that is switched lies in one page:
//! a call of a hook across two pages is left alone. So a site is whole whenever the writer is
//! killed. All threads are stopped meanwhile, and the kernel resumes them, so that each processor
//! executes the new bytes. A uprobe that the kernel places into the page between reading and
//! writing is lost.
//!
//! A uprobe that came onto an active instruction is an `int3` in the place of its first byte. The
//! instruction is restored behind it: the kernel executes the file's own one, and writes the file's
//! byte when the uprobe goes.

use std::time::Duration;
use std::{io, thread};

use probe_inject::{Halted, InjectError, Memory, Process};

use super::instruction::{Code, Counted};

/// The time for which threads are stopped at once.
const HALT_LIMIT: Duration = Duration::from_millis(8);
const PAGE: u64 = 4096;

/// A site, and the instruction to write in place of another one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change {
    /// The site's address.
    pub site: u64,
    /// The bytes that are there.
    pub from: Code,
    /// The bytes to write, as many.
    pub to: Code,
    /// Whether these are the file's own.
    pub restores: bool,
}

impl Change {
    fn end(&self) -> u64 {
        self.site.wrapping_add(self.from.bytes().len() as u64)
    }
}

/// Returns whether a site lies in one page. Nothing else is needed, while all threads are stopped.
pub fn is_in_one_page(site: &Counted) -> bool {
    is_within_page(site.addr, site.end())
}

fn is_within_page(start: u64, end: u64) -> bool {
    start < end && start / PAGE == (end - 1) / PAGE
}

/// The result of a switch.
#[derive(Default, Debug)]
pub struct Switched {
    /// The changes that were not made, since the site has other bytes or none.
    pub refused: Vec<Change>,
    /// The number of changes that were made behind a breakpoint.
    pub under_breakpoints: u64,
}

/// Makes the changes.
///
/// # Errors
/// If the threads can't be stopped, or the text can't be written. Changes may have been made.
pub fn switch(process: &mut Process, changes: &[Change]) -> Result<Switched, InjectError> {
    let mut switched = Switched::default();
    let mut done = 0;
    let pid = process.pid();
    while done < changes.len() {
        if done != 0 {
            // Back off for as long as the program was stopped.
            thread::sleep(HALT_LIMIT);
        }
        let made = process.halt(|halted| switch_for_a_while(halted, &changes[done..], &mut switched))?;
        let step = "its code can't be written";
        done += made.map_err(|error| InjectError::System { pid, step, error })?;
    }
    Ok(switched)
}

/// Makes changes until the time is over, those of one page at least. Returns how many were tried.
fn switch_for_a_while(halted: &Halted<'_>, changes: &[Change], switched: &mut Switched) -> io::Result<usize> {
    let mut positions = Vec::new();
    // A thread without registers is one that has ended.
    let _ = halted.each_thread(|registers| {
        positions.push(registers.instruction);
        Ok(None)
    });
    let positions = ThreadPositions::new(positions);
    let mut done = 0;
    for changes in changes.chunk_by(|one, other| one.site / PAGE == other.site / PAGE) {
        if done != 0 && halted.elapsed() > HALT_LIMIT {
            break;
        }
        switch_page(halted.memory(), changes, &positions, switched)?;
        done += changes.len();
    }
    Ok(done)
}

/// The addresses at which threads are stopped, sorted.
struct ThreadPositions(Vec<u64>);

impl ThreadPositions {
    fn new(mut positions: Vec<u64>) -> Self {
        positions.sort_unstable();
        Self(positions)
    }

    /// Returns whether a thread is stopped within a site's instruction. No other instruction begins
    /// there, so such a thread has jumped into the middle.
    fn any_inside(&self, site: u64, end: u64) -> bool {
        let next = self.0.partition_point(|it| *it <= site);
        self.0.get(next).is_some_and(|it| *it < end)
    }
}

/// Makes the changes of one page, by one write from the first word to the last one.
fn switch_page(
    memory: &Memory,
    changes: &[Change],
    positions: &ThreadPositions,
    switched: &mut Switched,
) -> io::Result<()> {
    let first = changes.iter().map(|it| it.site).min().unwrap_or_default() & !7;
    let end = changes.iter().map(Change::end).max().unwrap_or_default().checked_next_multiple_of(8);
    let len = end.map_or(0, |end| end.saturating_sub(first));
    let mut bytes = vec![0; usize::try_from(len).unwrap_or_default()];
    if memory.read(first, &mut bytes).is_err() {
        switched.refused.extend_from_slice(changes);
        return Ok(());
    }
    let mut is_changed = false;
    for change in changes {
        let at = usize::try_from(change.site - first).unwrap_or_default();
        let (from, to) = (change.from.bytes(), change.to.bytes());
        match bytes.get_mut(at..at + from.len()) {
            Some(bytes)
                if !positions.any_inside(change.site, change.end())
                    && is_within_page(change.site, change.end())
                    && (*bytes == *from || change.restores && is_under_breakpoint(bytes, from))
                    && from.len() == to.len() =>
            {
                let kept = usize::from(*bytes != *from);
                bytes[kept..].copy_from_slice(&to[kept..]);
                switched.under_breakpoints += kept as u64;
                is_changed = true;
            }
            _ => switched.refused.push(*change),
        }
    }
    if is_changed { memory.write(first, &bytes) } else { Ok(()) }
}

/// The instruction of a breakpoint.
const INT3: u8 = 0xcc;

/// Returns whether bytes are those of an active instruction whose first one is a breakpoint. It is
/// that of a uprobe, since no debugger traces the program meanwhile.
pub fn is_under_breakpoint(bytes: &[u8], active: &[u8]) -> bool {
    match (bytes, active) {
        ([INT3, bytes @ ..], [_, active @ ..]) => bytes == active,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_breakpoint_stands_for_the_first_byte_alone() {
        let active = [0xe9, 1, 2, 3, 4];
        assert!(is_under_breakpoint(&[0xcc, 1, 2, 3, 4], &active));
        for bytes in [&active[..], &[0xcc, 1, 2, 3, 5], &[0xcc, 1, 2, 3], &[0xcc], &[], &[0x0f, 1, 2, 3, 4]] {
            assert!(!is_under_breakpoint(bytes, &active), "{bytes:x?}");
        }
    }

    #[test]
    fn a_thread_stands_before_an_instruction_or_inside_of_it() {
        let positions = ThreadPositions::new(vec![0x1010, u64::MAX, 0x1000, 0x100a, 0x1007]);
        let inside: Vec<_> = (0xffa..0x1018).filter(|it| positions.any_inside(*it, *it + 5)).collect();
        let expected = [0xffc..=0xfff, 0x1003..=0x1009, 0x100c..=0x100f];
        assert_eq!(inside, expected.into_iter().flatten().collect::<Vec<u64>>());
        assert!(!positions.any_inside(0x1001, 0x1007) && positions.any_inside(0x1001, 0x1008));
        assert!(!ThreadPositions::new(Vec::new()).any_inside(0x1000, 0x1005));
    }
}
