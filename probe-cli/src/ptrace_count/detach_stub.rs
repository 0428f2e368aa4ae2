//! Leads threads out of stubs, and finds out whether any can come back to one.
//!
//! Cost: all threads are stopped while their stacks are read, for [`STACK_SCAN_LIMIT`] at most.

use std::io;
use std::ops::Range;
use std::time::Duration;

use probe_inject::{Halted, Mapping, ThreadRegisters};

use super::counter_page::CounterRegion;

/// The longest time for which threads are stopped while stacks are read.
pub const STACK_SCAN_LIMIT: Duration = Duration::from_millis(20);
/// Bytes of a stack that are read at a time.
const STACK_CHUNK: u64 = 64 << 10;

/// The code of regions, in the order of their addresses, with each region and its index.
struct StubRanges<'a>(Vec<(Range<u64>, &'a CounterRegion, usize)>);

impl<'a> StubRanges<'a> {
    fn new(regions: &'a [CounterRegion]) -> Self {
        let mut ranges: Vec<_> =
            regions.iter().enumerate().map(|(at, it)| (it.base..it.data(), it, at)).collect();
        ranges.sort_unstable_by_key(|(code, ..)| code.start);
        Self(ranges)
    }

    /// Returns the region whose code contains an address, and its index.
    fn at(&self, address: u64) -> Option<(&'a CounterRegion, usize)> {
        let next = self.0.partition_point(|(code, ..)| code.start <= address);
        let (code, region, number) = self.0.get(next.checked_sub(1)?)?;
        code.contains(&address).then_some((*region, *number))
    }
}

/// Leads threads out of the stubs of regions to which no site leads any more. Returns one flag per
/// region: true if no thread can come back to it. A thread can if a signal handler has interrupted
/// it in a stub. All flags are false if the time is over.
///
/// # Errors
/// The system's.
pub fn detach(halted: &Halted<'_>, regions: &[CounterRegion], maps: &[Mapping]) -> io::Result<Vec<bool>> {
    let ranges = StubRanges::new(regions);
    let mut are_free = vec![true; regions.len()];
    halted.each_thread(|registers| {
        let region = ranges.at(registers.instruction).map(|(region, _)| region);
        let there = region.and_then(|it| Some((it, it.site_at(registers.instruction)?)));
        let resumed = there.map(|(region, place)| finish_stub(halted, region, place, registers));
        let is_read = scan_stack(halted, registers, maps, |word| {
            if let Some((_, number)) = ranges.at(word) {
                are_free[number] = false;
            }
        });
        if is_read.is_none() {
            are_free.fill(false);
        }
        resumed.transpose()
    })?;
    Ok(are_free)
}

/// Does the rest of a stub for a thread in it, and returns the thread's registers behind the stub.
fn finish_stub(
    halted: &Halted<'_>,
    region: &CounterRegion,
    (site, place): (usize, u64),
    registers: ThreadRegisters,
) -> io::Result<ThreadRegisters> {
    let instruction = &region.sites[site];
    let left = instruction.remainder(place);
    let left = left.ok_or_else(|| io::Error::other("a thread stands inside of an instruction"))?;
    let memory = halted.memory();
    if left.counts {
        let counter = region.counter(site);
        memory.write(counter, &memory.word(counter)?.wrapping_add(1).to_le_bytes())?;
    }
    Ok(ThreadRegisters {
        instruction: instruction.goes_to(memory)?,
        stack: registers.stack.wrapping_add(left.stack),
        flags: if left.has_flags { memory.word(registers.stack)? } else { registers.flags },
        ..registers
    })
}

/// Calls `each` for the words of a thread's stack, which holds the addresses to which its signal
/// handlers return. `None` if there is no time to read all of it, or if the thread is on another
/// stack than its own, which hides its own.
fn scan_stack(
    halted: &Halted<'_>,
    registers: ThreadRegisters,
    maps: &[Mapping],
    mut each: impl FnMut(u64),
) -> Option<()> {
    let mapping = maps.get(maps.partition_point(|it| it.end <= registers.stack))?;
    let is_own = mapping.name == "[stack]"
        || (mapping.holds(registers.thread_pointer) && registers.stack < registers.thread_pointer);
    if !(is_own && mapping.is_writable && mapping.holds(registers.stack)) {
        return None;
    }
    let mut bytes = vec![0; usize::try_from(STACK_CHUNK).ok()?];
    let mut at = registers.stack & !7;
    while at < mapping.end {
        let length = STACK_CHUNK.min(mapping.end - at);
        let part = &mut bytes[..usize::try_from(length).ok()?];
        halted.memory().read(at, part).ok().filter(|()| halted.elapsed() <= STACK_SCAN_LIMIT)?;
        for word in part.chunks_exact(8) {
            each(u64::from_le_bytes(word.try_into().unwrap_or_default()));
        }
        at += length;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};
    use std::time::Instant;

    use probe_inject::{InjectError, Process};

    use super::super::instruction::Counted;
    use super::*;

    /// A program that waits for its input; `None`, and a line of output, if tracing is not allowed.
    fn waiting() -> Option<(Child, Process)> {
        let child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        match Process::open(child.id()) {
            Ok(process) => Some((child, process)),
            Err(error @ InjectError::NotAllowed { .. }) => {
                println!("left out: {error}");
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Two regions to which no word leads, and between them one that holds the stack itself, to
    /// which its words lead.
    fn regions(maps: &[Mapping]) -> [CounterRegion; 3] {
        let region = |base, sites| CounterRegion { base, sites: vec![Counted::site(0); sites] };
        let stack = maps.iter().find(|it| it.name == "[stack]").unwrap();
        let held = region(stack.start, usize::try_from((stack.end - stack.start) / 48).unwrap());
        [region(1 << 41, 1), held, region(1 << 40, 1)]
    }

    #[test]
    fn words_of_a_stack_lead_to_regions() {
        let Some((mut child, mut process)) = waiting() else { return };
        let begun = Instant::now();
        loop {
            let maps = process.maps().unwrap();
            let regions = regions(&maps);
            let are_free = process.halt(|halted| detach(halted, &regions, &maps)).unwrap().unwrap();
            // The time was over.
            if are_free == [false; 3] && begun.elapsed() < Duration::from_secs(100) {
                continue;
            }
            assert_eq!(are_free, [true, false, true]);
            break;
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn no_stack_is_read_once_the_time_is_over() {
        let Some((mut child, mut process)) = waiting() else { return };
        let maps = process.maps().unwrap();
        let are_free = process.halt(|halted| {
            while halted.elapsed() <= STACK_SCAN_LIMIT {
                std::thread::yield_now();
            }
            detach(halted, &regions(&maps), &maps).unwrap()
        });
        assert_eq!(are_free.unwrap(), [false; 3]);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_region_is_found_by_an_address_of_its_code() {
        let region = |base| CounterRegion { base, sites: vec![Counted::site(0); 3] };
        let regions = [region(0x9000), region(0x1000), region(0x5000)];
        let ranges = StubRanges::new(&regions);
        let at = |address| ranges.at(address).map(|(region, number)| (region.base, number));
        let page = [0xfff, 0x1000, 0x1fff, 0x2000].map(at);
        assert_eq!(page, [None, Some((0x1000, 1)), Some((0x1000, 1)), None]);
        assert_eq!([at(0x5001), at(0x9fff), at(u64::MAX)], [Some((0x5000, 2)), Some((0x9000, 0)), None]);
    }
}
