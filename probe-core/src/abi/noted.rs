//! The tables that a note leads to, also after a tool has moved the note.
//!
//! `patchelf` gives notes a new place, and leaves code and data where they are. A moved note's
//! offsets then lead beside its tables, all by the same distance. No other reference would do:
//!
//! | from | objection |
//! |---|---|
//! | the beginning of the file | `patchelf` puts a page ahead of a file with a fixed address |
//! | address 0 | the reference that says so, to a symbol that nothing defines, is refused by gold and mold |
//! | the dynamic section, the GOT | static files have none; `patchelf` moves the former |
//!
//! So the tables themselves are what a reader knows them by: their ends have the form of
//! definitions, and their first record leads to a definition among them. If the note's own
//! offsets lead to no such tables, the reader looks for them in the object's data.
//!
//! Pure. Cost: four short reads. For a moved note, one more for each 64 bytes of data.

use core::ops::Range;

/// The size of a definition, and its alignment, in bytes.
const DEFINITION: u64 = 192;
const ALIGNED: u64 = 64;
/// A definition's version and size, and where they are.
const HEAD: [u8; 4] = [1, 0, 192, 0];
const HEAD_AT: u64 = 16;
/// Bytes of data that are looked through.
const MOST: u64 = 1 << 28;

/// The addresses of an object's tables.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Noted {
    /// The records.
    pub records: Range<u64>,
    /// The definitions.
    pub definitions: Range<u64>,
}

/// An object's memory.
pub trait Memory {
    /// Returns the bytes at an address; `None` if the object has none there.
    fn bytes<const N: usize>(&self, addr: u64) -> Option<[u8; N]>;

    /// Returns the segments that can be written (`is_data`), or the others, as far as the file
    /// fills them.
    fn segments(&self, is_data: bool) -> impl Iterator<Item = Range<u64>>;
}

impl Noted {
    /// Returns the tables of a note whose descriptor is at this address: those that the note leads
    /// to, or if these are no tables, the ones that lie as far from each other. `None` if there are
    /// none, either.
    pub fn find(at: u64, offsets: [i64; 4], memory: &impl Memory) -> Option<Self> {
        let own = Self::own(at, offsets);
        let own = Self { records: some(own.records), definitions: some(own.definitions) };
        if own.stand_in(memory) {
            return Some(own);
        }
        // Without definitions of its own, an object has records that lead to another one's.
        let (anchor, step, is_data) = if own.definitions.is_empty() {
            (&own.records, 4, false)
        } else {
            (&own.definitions, ALIGNED, true)
        };
        let len = anchor.end.checked_sub(anchor.start)?;
        let mut left = MOST / ALIGNED;
        for segment in memory.segments(is_data) {
            let mut start = segment.start.next_multiple_of(step);
            while start.checked_add(len).is_some_and(|end| end <= segment.end) {
                left = left.checked_sub(1)?;
                let moved = own.moved(start.wrapping_sub(anchor.start));
                if moved.stand_in(memory) {
                    return Some(moved);
                }
                start += step;
            }
        }
        None
    }

    /// Returns what a note says that was never moved.
    pub fn own(at: u64, offsets: [i64; 4]) -> Self {
        let [from, to, first, last] = [0, 1, 2, 3]
            .map(|number| at.wrapping_add(8 * number as u64).wrapping_add_signed(offsets[number]));
        Self { records: from..to, definitions: first..last }
    }

    fn moved(&self, by: u64) -> Self {
        let moved = |it: &Range<u64>| {
            if it.is_empty() { it.clone() } else { it.start.wrapping_add(by)..it.end.wrapping_add(by) }
        };
        Self { records: moved(&self.records), definitions: moved(&self.definitions) }
    }

    /// Returns whether tables are there. A table of a later version has to begin as described here,
    /// too.
    fn stand_in(&self, memory: &impl Memory) -> bool {
        let Range { start, end } = self.definitions;
        let is_empty = start == end;
        let is_one = |at: u64| memory.bytes(at.wrapping_add(HEAD_AT)) == Some(HEAD);
        let are_some = || {
            start < end
                && (end - start).is_multiple_of(DEFINITION)
                && start.is_multiple_of(ALIGNED)
                && is_one(start)
                && is_one(end - DEFINITION)
                // Other definitions lie in the same data, one before the table among them.
                && (0..(end - start) / DEFINITION).all(|number| is_one(start + number * DEFINITION))
        };
        (is_empty || are_some()) && (self.records.is_empty() || self.records_stand(memory))
    }

    fn records_stand(&self, memory: &impl Memory) -> bool {
        let first = self.records.start;
        let stub_at = match memory.bytes(first) {
            Some([1, 16..=255, 1 | 2, _]) => first.wrapping_add(12),
            Some([1, 12..=255, 3, _]) => first.wrapping_add(8),
            // Of another version.
            Some(_) => return !self.definitions.is_empty() && self.are_whole(memory),
            None => return false,
        };
        let leads = |at: u64| Some(at.wrapping_add_signed(i32::from_le_bytes(memory.bytes(at)?).into()));
        let Some(stub) = leads(stub_at) else { return false };
        match memory.bytes(stub) {
            Some([0x57, 0x48, 0x8d, 0x3d]) => {
                let definition = leads(stub.wrapping_add(4)).map(|it| it.wrapping_add(4));
                definition.is_some_and(|it| self.definitions.contains(&it))
            }
            // An entry of a linkage table.
            Some([0xff, 0x25, ..] | [0xf2, 0xff, 0x25, _] | [0xf3, 0x0f, 0x1e, 0xfa]) => {
                !self.definitions.is_empty() || self.are_whole(memory)
            }
            _ => false,
        }
    }

    /// Returns whether there are records, of whatever version, of which the last one ends where the
    /// table does.
    fn are_whole(&self, memory: &impl Memory) -> bool {
        let mut at = self.records.start;
        while at < self.records.end {
            match memory.bytes(at) {
                Some([1..=255, size @ 4..=255, _, _]) => at += u64::from(size),
                _ => return false,
            }
        }
        at == self.records.end
    }
}

/// Returns a table; one that the linker dropped has equal ends, which may be anywhere.
fn some(table: Range<u64>) -> Range<u64> {
    if table.start == table.end { 0..0 } else { table }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Bytes at an address, of which the first ones can't be written.
    struct Bytes(Vec<u8>);

    const START: u64 = 0x1000;
    const DATA: u64 = 0x200;

    impl Memory for Bytes {
        fn bytes<const N: usize>(&self, addr: u64) -> Option<[u8; N]> {
            let at = usize::try_from(addr.checked_sub(START)?).ok()?;
            self.0.get(at..at.checked_add(N)?)?.try_into().ok()
        }

        fn segments(&self, is_data: bool) -> impl Iterator<Item = Range<u64>> {
            let end = START + self.0.len() as u64;
            std::iter::once(if is_data { START + DATA..end } else { START..START + DATA })
        }
    }

    const RECORDS: u64 = START + 0x48;
    const STUB: u64 = START + 0x100;
    const DEFINITIONS: u64 = START + 0x2c0;

    fn put(bytes: &mut [u8], addr: u64, part: &[u8]) {
        bytes[usize::try_from(addr - START).unwrap()..][..part.len()].copy_from_slice(part);
    }

    fn relative(bytes: &mut [u8], addr: u64, to: u64) {
        let offset = i32::try_from(to.wrapping_sub(addr).cast_signed()).unwrap();
        put(bytes, addr, &offset.to_le_bytes());
    }

    /// Two records, and two definitions. Before and behind lies what resembles them.
    fn object() -> Bytes {
        let mut bytes = vec![0; 0x600];
        for record in [RECORDS, RECORDS + 16] {
            put(&mut bytes, record, &[1, 16, 1, 0]);
            relative(&mut bytes, record + 12, STUB);
        }
        put(&mut bytes, STUB, &[0x57, 0x48, 0x8d, 0x3d, 0, 0, 0, 0, 0xff, 0x27]);
        relative(&mut bytes, STUB + 4, DEFINITIONS + 192 - 4);
        for definition in [DEFINITIONS, DEFINITIONS + 192] {
            put(&mut bytes, definition + 16, &HEAD);
        }
        put(&mut bytes, DEFINITIONS - 64 + 16, &HEAD);
        Bytes(bytes)
    }

    fn tables() -> Noted {
        Noted { records: RECORDS..RECORDS + 32, definitions: DEFINITIONS..DEFINITIONS + 384 }
    }

    /// The offsets of a note that was made at an address.
    fn offsets(at: u64, of: &Noted) -> [i64; 4] {
        let ends = [of.records.start, of.records.end, of.definitions.start, of.definitions.end];
        let mut number = 0;
        ends.map(|end| {
            number += 8;
            end.wrapping_sub(at + number - 8).cast_signed()
        })
    }

    #[test]
    fn a_note_leads_to_its_tables_wherever_it_has_come() {
        let (object, tables) = (object(), tables());
        let offsets = offsets(0x1500, &tables);
        for at in [0x1500, 0x1504, 0x1500 + 192, 0x1500 - 192, 0x1500 + 16, 0x500, 0, u64::MAX - 64, 1 << 40]
        {
            assert_eq!(Noted::find(at, offsets, &object), Some(tables.clone()), "{at:#x}");
        }
    }

    /// The runtime's own definitions are in no table, and may end where one begins.
    #[test]
    fn definitions_ahead_of_a_table_are_no_part_of_it() {
        let (records, stub, first) = (START + 0x400, START + 0x500, START + 0xa00);
        let mut object = Bytes(vec![0; 0x1200]);
        put(&mut object.0, records, &[1, 16, 1, 0]);
        relative(&mut object.0, records + 12, stub);
        put(&mut object.0, stub, &[0x57, 0x48, 0x8d, 0x3d, 0, 0, 0, 0, 0xff, 0x27]);
        relative(&mut object.0, stub + 4, first + 2 * 192 - 4);
        (0..4).for_each(|number| put(&mut object.0, first + number * 192 + 16, &HEAD));
        let tables = Noted { records: records..records + 16, definitions: first..first + 4 * 192 };
        let offsets = offsets(0x2000, &tables);
        for ahead in [192, 2 * 192] {
            put(&mut object.0, first - ahead + 16, &HEAD);
            for at in [0x2000, 0x2000 - ahead, 0x5000] {
                assert_eq!(Noted::find(at, offsets, &object), Some(tables.clone()), "{ahead} {at:#x}");
            }
            put(&mut object.0, first - ahead + 16, &[0; 4]);
        }
    }

    #[test]
    fn records_of_another_objects_probes_are_found_by_themselves() {
        let mut object = object();
        put(&mut object.0, STUB, &[0xff, 0x25, 0, 0]);
        let tables = Noted { definitions: 0..0, ..tables() };
        let offsets = offsets(0x1500, &tables);
        for at in [0x1500, 0x1500 + 16, 0x1500 - 16, 0x900] {
            assert_eq!(Noted::find(at, offsets, &object), Some(tables.clone()), "{at:#x}");
        }
    }

    #[test]
    fn what_has_no_tables_leads_to_none() {
        let tables = tables();
        let offsets = offsets(0x1500, &tables);
        // A definition, the record, the stub, and what the stub names.
        for (addr, byte) in [(DEFINITIONS + 192 + 18, 1), (RECORDS + 12, 1), (STUB, 0), (STUB + 5, 9)] {
            let mut object = object();
            put(&mut object.0, addr, &[byte]);
            assert_eq!(Noted::find(0x1500, offsets, &object), None, "{addr:#x}");
        }
        let dropped = Noted { records: 7..7, definitions: 9..9 };
        let none = Noted { records: 0..0, definitions: 0..0 };
        assert_eq!(Noted::find(0x1500, self::offsets(0x1500, &dropped), &object()), Some(none));
    }

    proptest! {
        #[test]
        fn never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..0x800), at: u64, offsets: [i64; 4]) {
            let _ = Noted::find(at, offsets, &Bytes(bytes));
        }
    }
}
