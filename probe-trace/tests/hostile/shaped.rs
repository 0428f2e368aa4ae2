//! Files that any bytes make: their blocks are whole, and their words are wild.
//!
//! Bytes alone rarely get beyond a file's first damaged block. Here they choose blocks, definitions
//! and records.

use probe_trace::layout::{block, control, event, header, off, ring, sub_buffer};

use crate::made::{self, File};

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

    /// Returns a number that is small, near a power of two, near the largest, or any.
    fn wild(&mut self) -> u64 {
        let choice = self.byte();
        match choice >> 6 {
            0 | 1 => u64::from(choice),
            2 => (1_u64 << (choice & 63)).wrapping_sub(u64::from(self.below(3))),
            _ if choice == u8::MAX => (0..8).fold(0, |word, _| word << 8 | u64::from(self.byte())),
            _ => u64::MAX - u64::from(choice & 63),
        }
    }

    fn wilds(&mut self, many: usize) -> Vec<u64> {
        (0..many).map(|_| self.wild()).collect()
    }

    fn text(&mut self) -> String {
        let bytes: Vec<u8> = (0..self.below(6)).map(|_| self.byte()).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// Makes the file.
pub fn shape(choices: &[u8]) -> Vec<u8> {
    let mut of = Choices(choices);
    let mut file = File::new();
    for _ in 0..of.below(3) {
        let at = usize::from(of.below(14));
        // The magic number and the version have tests of their own.
        if at > header::VERSION && at != header::SUB_BUFFER_WORDS {
            let word = of.wild();
            file = file.header(at, word);
        }
    }
    while !of.0.is_empty() {
        match of.below(14) {
            0 | 1 => {
                let definitions: Vec<_> = (0..of.below(6)).map(|_| definition(&mut of)).collect();
                file.definitions(&definitions);
            }
            2 => file.reading(of.wild()),
            3 => {
                let many = usize::from(of.below(7));
                let words = of.wilds(many);
                file.words(block::READING, 0, &words);
            }
            4 => {
                let number = of.below(3).into();
                let words = of.wilds(ring::WORDS);
                file.words(block::RING, number, &words);
            }
            5 => {
                let many = usize::from(of.below(4));
                let words = of.wilds(many);
                file.words(block::UNSEEN, 0, &words);
            }
            6 => {
                let (kind, many) = (of.wild(), usize::from(of.below(20)));
                let words = of.wilds(many);
                file.words(kind, 0, &words);
            }
            7 => {
                let (number, many) = (of.below(3).into(), usize::from(of.below(10)));
                let words: Vec<_> = [number + 1].into_iter().chain(of.wilds(many)).collect();
                file.words(block::OFF, number, &words);
            }
            8 => {
                let names: Vec<String> = (0..of.below(4)).map(|_| of.text()).collect();
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                let (number, many) = (of.wild(), usize::from(of.below(6)));
                let calls: Vec<_> = (0..many).map(|_| of.below(4).into()).collect();
                file.block(block::STACKS, 0, &made::stacks(&names, &[(number, &calls)]));
            }
            _ => sub_buffer(&mut of, &mut file),
        }
    }
    // The end may be missing.
    let missing = usize::from(choices.last().copied().unwrap_or_default());
    if missing < 64 {
        file.0.truncate(file.0.len() - missing);
    }
    file.0
}

fn definition(of: &mut Choices<'_>) -> Vec<u8> {
    let (probe, kind, flags) = (of.below(8), of.below(9), of.below(5));
    let fields: Vec<String> = (0..of.below(4)).map(|_| of.text()).collect();
    let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
    // Entries and exits of few functions.
    let path = if of.byte() < 200 { format!("a::{}", probe / 2) } else { of.text() };
    made::definition(probe.into(), kind, flags, &path, &fields)
}

fn sub_buffer(of: &mut Choices<'_>, file: &mut File) {
    let (number, sequence) = (of.below(3).into(), of.below(4).into());
    let head: Vec<_> = (0..of.below(4))
        .map(|_| (usize::from(of.below(14)) + sub_buffer::THREAD, of.wild()))
        .filter(|(at, _)| *at < sub_buffer::WORDS)
        .collect();
    let mut records = Vec::new();
    for _ in 0..of.below(40) {
        let probe = of.below(8).into();
        match of.below(9) {
            0..4 => records.push(event::word(probe, 0, of.byte().into())),
            4 => records.extend([event::word(event::CONTROL, 2, 0), control::TIME, of.wild()]),
            5 => records.extend([event::word(event::CONTROL, 2, 0), control::GENERATION, of.below(3).into()]),
            6 => records.push(of.wild()),
            7 => {
                let kind = if of.below(4) == 0 { control::OFF_LOST } else { control::OFF };
                let many = if kind == control::OFF { off::WORDS } else { 1 };
                records.extend([event::word(event::CONTROL, 1 + many, 0), kind]);
                records.extend(of.wilds(many));
            }
            _ => {
                // A stack pointer or types, then values.
                let many = usize::from(of.below(6));
                records.push(event::word(probe, many, of.byte().into()));
                let types = u64::from_le_bytes([(); 8].map(|()| of.below(19)));
                records.extend(
                    of.wilds(many)
                        .into_iter()
                        .enumerate()
                        .map(|(at, word)| if at == usize::from(probe & 1 != 0) { types } else { word }),
                );
            }
        }
    }
    file.sub_buffer(number, sequence, &head, &records);
}
