//! Files, made word by word.

use probe_trace::layout::{self, HEADER_BYTES, block, header, reading, sub_buffer};

/// The words of a sub-buffer of these files, at most.
pub const SUB_BUFFER_WORDS: u64 = 1 << 17;

/// A file that is being made.
pub struct File(pub Vec<u8>);

impl File {
    /// Begins a file of process 7, whose ticks are nanoseconds.
    pub fn new() -> Self {
        let mut words = [0; HEADER_BYTES / 8];
        words[header::MAGIC] = layout::MAGIC;
        words[header::VERSION] = layout::VERSION;
        words[header::PROCESS] = 7;
        words[header::STATE] = layout::state::CLOSED;
        words[header::SUB_BUFFERS] = 8;
        words[header::SUB_BUFFER_WORDS] = SUB_BUFFER_WORDS;
        words[header::POLICY] = layout::policy::DRAIN;
        words[header::READING + reading::WIDTH] = 20;
        Self(bytes(&words))
    }

    /// Sets a word of the header.
    pub fn header(mut self, at: usize, word: u64) -> Self {
        self.0[at * 8..][..8].copy_from_slice(&word.to_le_bytes());
        self
    }

    /// Adds a block.
    pub fn block(&mut self, kind: u64, ring: u64, content: &[u8]) {
        let mut head = [0; block::WORDS];
        head[block::MAGIC_AT] = block::MAGIC;
        head[block::KIND_AT] = kind;
        head[block::BYTES_AT] = content.len() as u64;
        head[block::RING_AT] = ring;
        self.0.extend(bytes(&head));
        self.0.extend(content);
        self.0.resize(self.0.len().next_multiple_of(8), 0);
    }

    /// Adds a block of words.
    pub fn words(&mut self, kind: u64, ring: u64, words: &[u64]) {
        self.block(kind, ring, &bytes(words));
    }

    /// Adds a reading: a tick is a nanosecond.
    pub fn reading(&mut self, ticks: u64) {
        self.words(block::READING, 0, &[ticks, 20, ticks, ticks, ticks]);
    }

    /// Adds a sub-buffer. Its header's words are zero but for these.
    pub fn sub_buffer(&mut self, ring: u64, number: u64, head: &[(usize, u64)], records: &[u64]) {
        let mut words = vec![0; sub_buffer::WORDS];
        words[sub_buffer::SEQUENCE] = number + 1;
        words[sub_buffer::THREAD] = ring + 1;
        words[sub_buffer::TID] = ring + 101;
        head.iter().for_each(|(at, word)| words[*at] = *word);
        words.extend(records);
        words[sub_buffer::USED] = words.len() as u64;
        self.words(block::SUB_BUFFER, ring, &words);
    }

    /// Adds a block of definitions.
    pub fn definitions(&mut self, definitions: &[Vec<u8>]) {
        self.block(block::DEFINITIONS, 0, &definitions.concat());
    }
}

/// Encodes a definition at line 1 of `f.rs`.
pub fn definition(probe: u32, kind: u8, flags: u8, path: &str, fields: &[&str]) -> Vec<u8> {
    definition_at(probe, [kind, flags], path, 1, fields)
}

/// Encodes a definition with its kind and its flags.
pub fn definition_at(probe: u32, what: [u8; 2], path: &str, line: u32, fields: &[&str]) -> Vec<u8> {
    let mut out = probe.to_le_bytes().to_vec();
    out.extend(what);
    out.extend(u16::try_from(fields.len()).unwrap().to_le_bytes());
    out.extend(line.to_le_bytes());
    for text in [path, "f.rs"].iter().chain(fields) {
        out.extend(u32::try_from(text.len()).unwrap().to_le_bytes());
        out.extend(text.as_bytes());
    }
    out.resize(out.len().next_multiple_of(8), 0);
    out
}

pub fn bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Encodes stacks: all names, and for each stack its number and which names its calls have.
pub fn stacks(names: &[&str], stacks: &[(u64, &[u64])]) -> Vec<u8> {
    let mut out = bytes(&[names.len() as u64]);
    for name in names {
        out.extend(u32::try_from(name.len()).unwrap().to_le_bytes());
        out.extend(name.as_bytes());
    }
    out.resize(out.len().next_multiple_of(8), 0);
    for (number, calls) in stacks {
        out.extend(bytes(&[*number, calls.len() as u64]));
        out.extend(bytes(calls));
    }
    out
}
