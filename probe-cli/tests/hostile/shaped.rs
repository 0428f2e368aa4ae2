//! Files that any bytes make: their headers are right, and their tables are wild.
//!
//! Bytes alone rarely get beyond a file's headers. Here they choose definitions, records, stubs,
//! notes and relocations.

use crate::made::{DEFINITION, Made, TEXT, note};

/// The choices: bytes from the front.
struct Choices<'a>(&'a [u8]);

impl Choices<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn below(&mut self, limit: u8) -> u8 {
        self.byte() % limit
    }

    /// Returns a number that is small, near a power of two, or near the largest.
    fn wild(&mut self) -> u64 {
        let choice = self.byte();
        match choice >> 6 {
            0 | 1 => u64::from(choice),
            2 => (1_u64 << (choice & 63)).wrapping_sub(u64::from(self.below(3))),
            _ => u64::MAX - u64::from(choice & 63),
        }
    }
}

/// Makes the file.
pub fn shape(choices: &[u8]) -> Vec<u8> {
    let mut of = Choices(choices);
    let mut made = Made::new();
    for _ in 0..of.below(6) {
        let (kind, name) = (of.below(8), of.below(4));
        made.probe(&format!("a::{name}"), kind);
    }
    for _ in 0..of.below(3) {
        let (kind, len) = (of.below(3).into(), usize::from(of.below(9)) * 4);
        let descriptor: Vec<u8> = (0..len).map(|_| of.byte()).collect();
        made.notes.extend(note(kind, &descriptor));
    }
    made.connect();
    // Changes in each table, in bytes that matter.
    while !of.0.is_empty() {
        let choice = of.below(5);
        let (at, value) = (usize::from(of.byte()), of.wild());
        match choice {
            0 => set(&mut made.records, at, value),
            1 => set(&mut made.definitions, (at % 6) * DEFINITION + 16 + at % 40, value),
            2 => set(&mut made.text, at, value),
            3 => {
                let place = made.places().definitions + (at % 6 * DEFINITION) as u64 + 40;
                made.relocations.push([place, 8, value]);
            }
            _ => {
                let symbol = of.wild() << 32 | [6, 7, 8][at % 3];
                made.relocations.push([TEXT + at as u64, symbol, value]);
            }
        }
    }
    made.bytes()
}

/// Sets one byte, or four of them.
fn set(bytes: &mut [u8], at: usize, value: u64) {
    let len = if value > 0xff { 4 } else { 1 };
    let end = bytes.len();
    if let Some(into) = bytes.get_mut(at..(at + len).min(end)) {
        into.copy_from_slice(&value.to_le_bytes()[..into.len()]);
    }
}
