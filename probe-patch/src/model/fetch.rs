//! The bytes that a thread may fetch: every mix that a history allows.

use std::collections::HashSet;
use std::ops::Range;

use super::memory::{History, Memory};
use crate::bytes::Bytes;

/// Returns all byte sequences that a thread may fetch at `addr` for an instruction of `len` bytes,
/// at any time in a history. Each aligned unit of `granule` bytes is read at once.
///
/// A thread that fetches has last serialised at the beginning of an epoch or later. So within an
/// epoch each unit has any of its values, independently of the other units. An instruction's units
/// are all read within one epoch, since a thread serialises between instructions.
pub(crate) fn fetched(history: &History, addr: usize, len: usize, granule: usize) -> HashSet<Bytes> {
    history.epochs().iter().flat_map(|epoch| fetched_within(epoch, addr, len, granule)).collect()
}

/// Returns the same for threads that have serialised at the last sync.
pub(crate) fn fetched_last(history: &History, addr: usize, len: usize, granule: usize) -> HashSet<Bytes> {
    let epoch = history.epochs().last().expect("never empty");
    fetched_within(epoch, addr, len, granule)
}

fn fetched_within(epoch: &[Memory], addr: usize, len: usize, granule: usize) -> HashSet<Bytes> {
    let mut mixes = vec![Vec::with_capacity(len)];
    for unit in units(addr, len, granule) {
        let values: HashSet<Vec<u8>> =
            epoch.iter().map(|memory| memory.bytes(unit.start, unit.len())).collect();
        mixes = mixes
            .iter()
            .flat_map(|mix| values.iter().map(move |value| [&mix[..], &value[..]].concat()))
            .collect();
    }
    mixes.iter().map(|mix| Bytes::new(mix).expect("1 to 8 bytes")).collect()
}

/// Returns an instruction's part in each unit that holds some of it.
fn units(addr: usize, len: usize, granule: usize) -> Vec<Range<usize>> {
    assert!(granule.is_power_of_two());
    let (mut units, mut at, end) = (Vec::new(), addr, addr + len);
    while at < end {
        let next = end.min((at & !(granule - 1)) + granule);
        units.push(at..next);
        at = next;
    }
    units
}

#[cfg(test)]
mod tests {
    use super::super::memory::{LINE, ModelStep, write};
    use super::*;

    fn all(mixes: &[&[u8]]) -> HashSet<Bytes> {
        mixes.iter().map(|mix| Bytes::new(mix).unwrap()).collect()
    }

    #[test]
    fn units_end_where_memory_does_so() {
        assert_eq!(units(LINE - 2, 5, 8), [LINE - 2..LINE, LINE..LINE + 3]);
        assert_eq!(units(LINE, 5, 8), [LINE..LINE + 5]);
        assert_eq!(units(LINE + 1, 3, 1), [LINE + 1..LINE + 2, LINE + 2..LINE + 3, LINE + 3..LINE + 4]);
        assert_eq!(units(LINE + 6, 4, 64), [LINE + 6..LINE + 10]);
    }

    #[test]
    fn units_are_read_independently_and_a_unit_as_a_whole() {
        let (old, new) = (Bytes::from([1, 2, 3, 4]), Bytes::from([5, 6, 7, 8]));
        let history = History::of(LINE - 2, old, &write(LINE - 2, 0, new));
        let mixes = all(&[&[1, 2, 3, 4], &[1, 2, 7, 8], &[5, 6, 3, 4], &[5, 6, 7, 8]]);
        assert_eq!(fetched(&history, LINE - 2, 4, 8), mixes);
        assert_eq!(fetched(&history, LINE - 2, 4, 1).len(), 16);
    }

    #[test]
    fn a_unit_that_holds_both_words_has_their_order() {
        let (old, new) = (Bytes::from([1, 2, 3, 4]), Bytes::from([5, 6, 7, 8]));
        let history = History::of(LINE + 6, old, &write(LINE + 6, 0, new));
        let mixes = all(&[&[1, 2, 3, 4], &[5, 6, 3, 4], &[5, 6, 7, 8]]);
        assert_eq!(fetched(&history, LINE + 6, 4, 64), mixes);
    }

    #[test]
    fn staleness_ends_at_a_sync_and_nowhere_else() {
        let one = Bytes::from([1]);
        let mut history = History::of(LINE, one, &[]);
        for value in 2..=4 {
            write(LINE, 0, [value].into()).into_iter().for_each(|step| history.push(step));
        }
        assert_eq!(fetched_last(&history, LINE, 1, 8), all(&[&[1], &[2], &[3], &[4]]));
        history.push(ModelStep::Sync);
        assert_eq!(fetched_last(&history, LINE, 1, 8), all(&[&[4]]));
        assert_eq!(fetched(&history, LINE, 1, 8).len(), 4);
    }
}
