//! Switching sites of a program whose threads all stand.
//!
//! ```text
//! halt ▸ each site: its bytes are those expected? ▸ its word is written ▸ 8 ms are over: let go ▸ halt …
//! ```
//! A site lies in one aligned word, and a word is written at once, so a site is whole whenever the
//! writer is killed. All threads stand meanwhile, and go on by way of the kernel, after
//! which a processor executes the new bytes.

use std::io;
use std::thread;
use std::time::Duration;

use probe_inject::{Halted, InjectError, Process};

use super::stub::SITE;

/// The time for which threads stand at a time.
const STAND: Duration = Duration::from_millis(8);
/// Sites between two looks at the time.
const OFTEN: usize = 64;

/// A site, and the instruction to write in place of another one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change {
    /// The site's address.
    pub site: u64,
    /// The bytes that are there.
    pub from: [u8; 5],
    /// The bytes to write.
    pub to: [u8; 5],
}

/// Makes the changes. Returns those that were not made, since other bytes are there, or none.
///
/// # Errors
/// If the threads can't be stopped, or the text can't be written. Changes may have been made.
pub fn switch(process: &mut Process, changes: &[Change]) -> Result<Vec<Change>, InjectError> {
    let mut refused = Vec::new();
    let mut done = 0;
    let pid = process.pid();
    while done < changes.len() {
        if done != 0 {
            // The program runs for as long as it stood.
            thread::sleep(STAND);
        }
        let made = process.halt(|halted| some(halted, &changes[done..], &mut refused))?;
        let step = "its code can't be written";
        done += made.map_err(|error| InjectError::System { pid, step, error })?;
    }
    Ok(refused)
}

/// Makes as many changes as there is time for, at least one.
fn some(halted: &Halted<'_>, changes: &[Change], refused: &mut Vec<Change>) -> io::Result<usize> {
    let mut places = Vec::new();
    // A thread without registers is one that has ended.
    let _ = halted.each(|stand| {
        places.push(stand.instruction);
        Ok(None)
    });
    for (at, change) in changes.iter().enumerate() {
        if at % OFTEN == 0 && at != 0 && halted.elapsed() > STAND {
            return Ok(at);
        }
        // Neither instruction has a place inside of it where a thread could stand.
        let is_inside = places.iter().any(|it| it.wrapping_sub(change.site.wrapping_add(1)) < SITE - 1);
        if is_inside || !is_made(halted, change)? {
            refused.push(*change);
        }
    }
    Ok(changes.len())
}

fn is_made(halted: &Halted<'_>, change: &Change) -> io::Result<bool> {
    let word = change.site & !7;
    let at = usize::try_from(change.site - word).unwrap_or(usize::MAX);
    let mut bytes = [0; 8];
    if at > 3 || halted.memory().read(word, &mut bytes).is_err() || bytes[at..at + 5] != change.from {
        return Ok(false);
    }
    bytes[at..at + 5].copy_from_slice(&change.to);
    halted.memory().write(word, &bytes).map(|()| true)
}
