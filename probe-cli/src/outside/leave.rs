//! Leading threads out of stubs, and finding out whether any will come back to one.

use std::io;
use std::ops::Range;

use probe_inject::{Halted, Mapping, Stand};

use super::region::Region;
use super::stub::{SITE, rest};

/// The most bytes of a stack that are read. A larger stack counts as unknown.
const MOST: u64 = 64 << 20;

/// Leads threads out of the stubs of a region to which no site leads any more. Returns whether no
/// thread can come back: a handler that has interrupted one there would.
///
/// # Errors
/// The system's.
pub fn leave(halted: &Halted<'_>, region: &Region, maps: &[Mapping]) -> io::Result<bool> {
    let code = region.base..region.data();
    let mut is_left = true;
    halted.each(|stand| {
        let led = match region.site_at(stand.instruction) {
            Some((site, place)) => Some(led(halted, region, site, place, stand)?),
            None => None,
        };
        is_left &= !returns_to(halted, stand, &code, maps);
        Ok(led)
    })?;
    Ok(is_left)
}

/// Does the rest of a stub for a thread in it, and returns the place behind its site.
fn led(halted: &Halted<'_>, region: &Region, site: usize, place: u64, stand: Stand) -> io::Result<Stand> {
    let rest = rest(place).ok_or_else(|| io::Error::other("a thread stands inside of an instruction"))?;
    let memory = halted.memory();
    if rest.counts {
        let counter = region.counter(site);
        memory.write(counter, &memory.word(counter)?.wrapping_add(1).to_le_bytes())?;
    }
    Ok(Stand {
        instruction: region.sites[site] + SITE,
        stack: stand.stack.wrapping_add(rest.stack),
        flags: if rest.has_flags { memory.word(stand.stack)? } else { stand.flags },
        ..stand
    })
}

/// Returns whether a handler on a thread's stack may return into the code. A stack that is not the
/// thread's own one hides others, so nobody knows.
fn returns_to(halted: &Halted<'_>, stand: Stand, code: &Range<u64>, maps: &[Mapping]) -> bool {
    let Some(mapping) = maps.iter().find(|it| it.holds(stand.stack) && it.is_writable) else { return true };
    let is_own =
        mapping.name == "[stack]" || (mapping.holds(stand.descriptor) && stand.stack < stand.descriptor);
    let begin = stand.stack & !7;
    let length = mapping.end - begin;
    let Ok(bytes) = usize::try_from(length) else { return true };
    if !is_own || length > MOST {
        return true;
    }
    let Ok(bytes) = halted.memory().bytes(begin, bytes) else { return true };
    bytes.chunks_exact(8).any(|it| code.contains(&u64::from_le_bytes(it.try_into().unwrap_or_default())))
}
