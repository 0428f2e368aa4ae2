//! Leading threads out of stubs, and finding out whether any will come back to one.

use std::io;

use probe_inject::{Halted, Mapping, Stand};

use super::region::Region;
use super::stub::{SITE, rest};

/// The most bytes of a stack that are read. A larger stack counts as unknown.
const MOST: usize = 8 << 20;

/// Leads threads out of the stubs of regions to which no site leads any more. Returns of each
/// whether no thread can come back: a handler that has interrupted one there would.
///
/// # Errors
/// The system's.
pub fn leave(halted: &Halted<'_>, regions: &[Region], maps: &[Mapping]) -> io::Result<Vec<bool>> {
    let mut are_left = vec![true; regions.len()];
    halted.each(|stand| {
        let there = regions.iter().find_map(|it| Some((it, it.site_at(stand.instruction)?)));
        let led = match there {
            Some((region, (site, place))) => Some(led(halted, region, site, place, stand)?),
            None => None,
        };
        let words = stack(halted, stand, maps);
        for (region, is_left) in regions.iter().zip(&mut are_left) {
            let code = region.base..region.data();
            *is_left &= words.as_ref().is_some_and(|it| !it.iter().any(|word| code.contains(word)));
        }
        Ok(led)
    })?;
    Ok(are_left)
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

/// Returns the words of a thread's stack, which has the places to which its handlers return; `None`
/// for a stack that is not the thread's own one, as it hides others.
fn stack(halted: &Halted<'_>, stand: Stand, maps: &[Mapping]) -> Option<Vec<u64>> {
    let mapping = maps.iter().find(|it| it.holds(stand.stack) && it.is_writable)?;
    let is_own =
        mapping.name == "[stack]" || (mapping.holds(stand.descriptor) && stand.stack < stand.descriptor);
    let begin = stand.stack & !7;
    let length = usize::try_from(mapping.end - begin).ok().filter(|it| is_own && *it <= MOST)?;
    let bytes = halted.memory().bytes(begin, length).ok()?;
    Some(bytes.chunks_exact(8).map(|it| u64::from_le_bytes(it.try_into().unwrap_or_default())).collect())
}
