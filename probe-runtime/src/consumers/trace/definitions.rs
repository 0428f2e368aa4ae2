//! Definitions of a trace's probes: how files have them, and those of probes that join it.
//!
//! Later definitions are a chain, which is read without a lock. So a thread that reads it while
//! another one forks leaves nothing locked in the child, and a drain waits for nobody.
//!
//! A mapped file has room for them, one unused block. Each addition cuts it in two:
//!
//! ```text
//! unused(n)  ▸  definitions(m) unused(n - m - header)
//! ```
//! The second block's header is stored first, then the definitions, then the first block's length,
//! and its kind last. So a reader of the file finds whole blocks at any moment. Definitions never
//! change.
//!
//! Cost: a load for each time that probes have joined. None on hits, but for the first one of a
//! child, which writes the definitions so far to its file.

use std::collections::BTreeSet;
use std::iter;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::{Arc, OnceLock};

use probe_trace::layout::{block, flag};

use super::stacks::{Depth, has_stack};
use crate::engine::control::ProbeSet;
use crate::engine::registry::ProbeId;
use probe_core::abi::{Convention, Definition, Kind, Type};

/// Returns the payload of a block of definitions: of those that are not `known`, which are added.
/// `depth` is that of the hits' stacks.
pub(super) fn encode(probes: &ProbeSet, known: &mut BTreeSet<ProbeId>, depth: Option<Depth>) -> Vec<u8> {
    let mut out = Vec::with_capacity(probes.len().saturating_sub(known.len()) * 128);
    probes.with_definitions(|definitions| {
        let new = definitions.filter(|(probe, _)| known.insert(*probe));
        new.for_each(|(probe, definition)| {
            #[cfg(probe_values)]
            let read = probes.site_fields(probe);
            #[cfg(not(probe_values))]
            let read = &[];
            let depth = depth.filter(|_| has_stack(definition.kind()));
            one(number(probe.index()), definition, read, depth, &mut out);
        });
    });
    out
}

/// Adds a definition. `read` are fields that the attachment reads itself; a stack is the last one.
fn one(
    probe: u32,
    definition: &Definition,
    read: &[(String, Option<Type>)],
    depth: Option<Depth>,
    out: &mut Vec<u8>,
) {
    out.extend(probe.to_le_bytes());
    out.push(definition.kind() as u8);
    let stack_pointer = match definition.convention() {
        Convention::Hidden | Convention::Wrapped => flag::FRAME | flag::OWN_FRAME,
        Convention::Call => flag::FRAME,
        Convention::ColdBlock | Convention::KeptColdBlock => 0,
    };
    let is_future = definition.kind() != Kind::Point
        && definition.fields().next() == Some(crate::engine::dispatch::FUTURE);
    out.push(stack_pointer | if is_future { flag::FUTURE } else { 0 });
    let own = || definition.fields().take(definition.field_count());
    let names = || own().chain(read.iter().map(|(name, _)| name.as_str()));
    let stack = depth.map(|depth| depth.field(names()));
    let fields = names().chain(stack).count();
    out.extend(u16::try_from(fields).unwrap_or(u16::MAX).to_le_bytes());
    out.extend(definition.line().to_le_bytes());
    text(definition.path(), out);
    text(definition.file(), out);
    names().chain(stack).for_each(|name| text(name, out));
    out.resize(out.len().next_multiple_of(8), 0);
}

fn text(text: &str, out: &mut Vec<u8>) {
    out.extend(u32::try_from(text.len()).unwrap_or(u32::MAX).to_le_bytes());
    out.extend(text.as_bytes());
}

/// Returns a probe's number in files, which is never 0; fewer probes than that have counters.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "see above")]
pub(super) const fn number(probe: usize) -> u32 {
    probe as u32 + 1
}

/// Definitions of probes that have joined, one link for each time.
#[derive(Default)]
pub(super) struct LaterDefinitions(OnceLock<Box<Link>>);

struct Link {
    definitions: Arc<[u8]>,
    next: LaterDefinitions,
}

impl LaterDefinitions {
    fn iter(&self) -> impl Iterator<Item = &Link> {
        iter::successors(self.0.get(), |link| link.next.0.get()).map(|link| &**link)
    }

    /// Returns the definitions, without the first ones.
    pub(super) fn after(&self, first: usize) -> Vec<Arc<[u8]>> {
        self.iter().skip(first).map(|link| Arc::clone(&link.definitions)).collect()
    }

    /// Adds definitions. One thread at a time calls it.
    pub(super) fn add(&self, definitions: Arc<[u8]>) {
        let end = self.iter().last().map_or(self, |link| &link.next);
        let _ = end.0.set(Box::new(Link { definitions, next: Self::default() }));
    }
}

impl Drop for LaterDefinitions {
    fn drop(&mut self) {
        // One after the other: a long chain would use up the stack.
        let mut next = self.0.take();
        while let Some(mut link) = next {
            next = link.next.0.take();
        }
    }
}

/// Room for definitions in a mapped file: its words, from the header of its first block to the end
/// of the last one's content.
#[derive(Clone, Copy)]
pub(super) struct DefinitionRoom<'a>(pub(super) &'a [AtomicU64]);

impl DefinitionRoom<'_> {
    /// Returns the place of the unused block. The room has whole blocks.
    pub(super) fn unused(self) -> usize {
        let mut at = 0;
        while let [_, kind, bytes, ..] = &self.0[at..]
            && kind.load(Relaxed) == block::DEFINITIONS
        {
            at += block::WORDS + usize::try_from(bytes.load(Relaxed) / 8).unwrap_or_default();
        }
        at
    }

    /// Returns the place of the unused block if it has room for these definitions.
    pub(super) fn place(self, definitions: &[u8]) -> Option<usize> {
        let at = self.unused();
        (at + 2 * block::WORDS + definitions.len() / 8 <= self.0.len()).then_some(at)
    }

    /// Puts definitions, which are whole words, into the unused block at this [place](Self::place).
    /// One thread at a time may call this.
    pub(super) fn put(self, at: usize, definitions: &[u8]) {
        let words = definitions.as_chunks().0;
        let content = at + block::WORDS;
        let next = content + words.len();
        let store = |at: usize, word: u64| self.0[at].store(word, Relaxed);
        let header = header(self.0.len() - next - block::WORDS);
        header.into_iter().zip(next..).for_each(|(word, at)| store(at, word));
        words.iter().zip(content..).for_each(|(word, at)| store(at, u64::from_le_bytes(*word)));
        self.0[at + block::BYTES_AT].store(words.len() as u64 * 8, Release);
        self.0[at + block::KIND_AT].store(block::DEFINITIONS, Release);
    }
}

const _: () = assert!(block::KIND_AT == 1 && block::BYTES_AT == 2);

/// Returns the header of an unused block of this many words.
pub(super) fn header(words: usize) -> [u64; block::WORDS] {
    let mut header = [0; block::WORDS];
    (header[block::MAGIC_AT], header[block::KIND_AT]) = (block::MAGIC, block::UNUSED);
    header[block::BYTES_AT] = words as u64 * 8;
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_get_what_they_lack() {
        let joined = LaterDefinitions::default();
        assert!(joined.after(0).is_empty());
        (0..3).for_each(|number| joined.add(Arc::from([number])));
        let read = |first| joined.after(first).iter().map(|it| it[0]).collect::<Vec<_>>();
        assert_eq!([read(0), read(2), read(3), read(9)], [vec![0, 1, 2], vec![2], vec![], vec![]]);
    }

    #[test]
    fn a_long_chain_is_dropped() {
        const LENGTH: usize = if cfg!(miri) { 100 } else { 50_000 };
        let mut joined = LaterDefinitions::default();
        for _ in 0..LENGTH {
            let next = std::mem::take(&mut joined);
            let _ = joined.0.set(Box::new(Link { definitions: Arc::default(), next }));
        }
        assert_eq!(joined.after(LENGTH - 1).len(), 1);
    }

    /// A room for this many words of content.
    fn room(words: usize) -> Vec<AtomicU64> {
        let zeros = iter::repeat_n(0, words);
        header(words).into_iter().chain(zeros).map(AtomicU64::new).collect()
    }

    /// Returns kind and content of each block.
    fn blocks(words: &[AtomicU64]) -> Vec<(u64, Vec<u64>)> {
        let words: Vec<_> = words.iter().map(|it| it.load(Relaxed)).collect();
        let (mut rest, mut blocks) = (&words[..], Vec::new());
        while let Some((head, content)) = rest.split_at_checked(block::WORDS) {
            assert_eq!(head[block::MAGIC_AT], block::MAGIC);
            let (content, others) = content.split_at(usize::try_from(head[block::BYTES_AT] / 8).unwrap());
            blocks.push((head[block::KIND_AT], content.to_vec()));
            rest = others;
        }
        assert_eq!(rest, [0; 0]);
        blocks
    }

    fn add(words: &[AtomicU64], definitions: &[u8]) -> bool {
        let place = DefinitionRoom(words).place(definitions);
        place.inspect(|at| DefinitionRoom(words).put(*at, definitions)).is_some()
    }

    #[test]
    fn each_addition_cuts_the_room() {
        let words = room(20);
        assert_eq!(DefinitionRoom(&words).unused(), 0);
        assert!(add(&words, &[1; 16]) && add(&words, &[2; 8]));
        let (one, other) = (u64::from_le_bytes([1; 8]), u64::from_le_bytes([2; 8]));
        let expected = [
            (block::DEFINITIONS, vec![one; 2]),
            (block::DEFINITIONS, vec![other]),
            (block::UNUSED, vec![0; 9]),
        ];
        assert_eq!((blocks(&words), DefinitionRoom(&words).unused()), (expected.into(), 11));
    }

    #[test]
    fn the_last_words_are_used_and_no_more() {
        let words = room(2 + block::WORDS);
        let before = blocks(&words);
        assert!(!add(&words, &[1; 24]));
        assert_eq!(blocks(&words), before);
        assert!(add(&words, &[1; 16]));
        assert_eq!(blocks(&words)[1], (block::UNUSED, vec![]));
        assert!(!add(&words, &[]) && !add(&words, &[1; 8]));
    }

    /// A child's file may have a part of an addition when the whole comes.
    #[test]
    fn an_addition_may_be_repeated() {
        let (words, other) = (room(20), room(20));
        assert!(add(&words, &[1; 16]) && add(&other, &[1; 16]));
        let at = DefinitionRoom(&words).place(&[2; 8]).unwrap();
        DefinitionRoom(&words).put(at, &[2; 8]);
        for copied in 0..20 {
            words.iter().zip(&other).take(copied).for_each(|(it, to)| to.store(it.load(Relaxed), Relaxed));
            DefinitionRoom(&other).put(at, &[2; 8]);
            assert_eq!(blocks(&other), blocks(&words));
        }
    }
}
