use std::io::{self, Read, Seek, SeekFrom};
use std::sync::{Arc, Mutex};

use super::*;
use crate::item::TraceEvent;
use crate::layout::{MAGIC, VERSION, event};

/// A file that grows.
#[derive(Clone, Default)]
struct GrowingFile(Arc<Mutex<Vec<u8>>>, u64);

impl Read for GrowingFile {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let bytes = self.0.lock().unwrap();
        let rest = bytes.get(usize::try_from(self.1).unwrap()..).unwrap_or_default();
        let many = rest.len().min(into.len());
        into[..many].copy_from_slice(&rest[..many]);
        self.1 += many as u64;
        Ok(many)
    }
}

impl Seek for GrowingFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.1 = match to {
            SeekFrom::Start(at) => at,
            SeekFrom::End(0) => self.0.lock().unwrap().len() as u64,
            other => panic!("{other:?}"),
        };
        Ok(self.1)
    }
}

impl GrowingFile {
    fn words(&self, words: &[u64]) {
        self.0.lock().unwrap().extend(words.iter().flat_map(|word| word.to_le_bytes()));
    }

    fn block(&self, kind: u64, ring: u64, words: &[u64]) {
        self.words(&[block::MAGIC, kind, words.len() as u64 * 8, ring]);
        self.words(words);
    }

    /// Ends a flush: the clocks stand at this nanosecond, which is a tick, too.
    fn flushed(&self, now: u64, unseen: u64) {
        self.block(block::UNSEEN, 0, &[unseen, 0]);
        self.block(block::READING, 0, &[now, 0, now, now + 1_000_000, now]);
    }

    /// Adds a copy of a ring's sub-buffer with hits at these ticks.
    fn copy(&self, ring: u64, number: u64, lost: u64, hits: &[u32]) {
        let mut words = [0; sub_buffer::WORDS];
        words[sub_buffer::SEQUENCE] = number + 1;
        words[sub_buffer::THREAD] = ring + 1;
        words[sub_buffer::TID] = 100 + ring;
        words[sub_buffer::LOST_BEFORE] = lost;
        let hits = hits.iter().map(|ticks| event::word(1, 0, *ticks));
        self.block(block::SUB_BUFFER, ring, &words.into_iter().chain(hits).collect::<Vec<_>>());
    }
}

/// Returns a file with its beginning: a probe with the number 1.
fn begun() -> GrowingFile {
    let file = GrowingFile::default();
    let mut words = [0; HEADER_BYTES / 8];
    words[header::MAGIC] = MAGIC;
    words[header::VERSION] = VERSION;
    words[header::PROCESS] = 7;
    words[header::SUB_BUFFERS] = 4;
    words[header::SUB_BUFFER_WORDS] = 64;
    file.words(&words);
    let mut definition = 1_u32.to_le_bytes().to_vec();
    definition.extend([0, 0, 0, 0, 3, 0, 0, 0]);
    for text in ["app::hit", "a.rs"] {
        definition.extend(u32::try_from(text.len()).unwrap().to_le_bytes());
        definition.extend(text.as_bytes());
    }
    definition.resize(definition.len().next_multiple_of(8), 0);
    file.block(block::DEFINITIONS, 0, &words_of(&definition));
    file
}

/// Returns the thread and time of each hit, and the number of lost ones as `(0, lost)`.
fn taken(pass: impl FnOnce(&mut dyn FnMut(Item)) -> Result<(), ReadError>) -> Vec<(u64, u64)> {
    let mut taken = Vec::new();
    pass(&mut |item| match item {
        Item::Event(TraceEvent { thread, time, definition, .. }) => {
            assert_eq!(definition.path, "app::hit");
            taken.push((thread.tid, time));
        }
        Item::Gap(gap) => taken.push((0, gap.lost)),
        Item::Thread(_) => (),
    })
    .unwrap();
    taken
}

#[test]
fn items_come_once_and_in_the_order_of_time() {
    let file = begun();
    let mut followed = Followed::begin("run", file.clone()).unwrap();
    let advance = |followed: &mut Followed| taken(|take| followed.advance(take));
    assert_eq!(advance(&mut followed), []);
    // Hits at 20 and 40 of one ring, at 30 of another; the rings were copied before 50.
    file.copy(0, 0, 0, &[20, 40]);
    file.copy(1, 0, 0, &[30]);
    file.flushed(50, 0);
    assert_eq!(advance(&mut followed), []);
    // The first ring goes on in the same sub-buffer, which comes again, and in the next.
    file.copy(0, 0, 0, &[20, 40, 60]);
    file.copy(0, 1, 5, &[70]);
    file.copy(1, 0, 0, &[30, 45, 65]);
    file.flushed(80, 2);
    assert_eq!(advance(&mut followed), [(100, 20), (101, 30), (100, 40), (101, 45)]);
    assert_eq!((followed.unseen(), followed.wall_time(7)), (2, 1_000_007));
    // A block that is not whole yet.
    let length = followed.position();
    file.words(&[block::MAGIC, block::READING, 40, 0]);
    assert_eq!(advance(&mut followed), []);
    assert_eq!(followed.position(), length);
    file.words(&[100, 0, 100, 100, 100]);
    assert_eq!(taken(|take| followed.finish(take)), [(100, 60), (0, 5), (101, 65), (100, 70)]);
    assert_eq!(followed.undefined(), 0);
}

#[test]
fn a_file_that_had_to_end_early_says_what_it_lacks() {
    let head_of = |tid, written, lost| {
        let mut head = [0; ring::WORDS];
        (head[ring::WRITTEN], head[ring::LOST], head[ring::TID]) = (written, lost, tid);
        head
    };
    let file = begun();
    let room = file.0.lock().unwrap().len();
    file.block(block::UNUSED, 0, &[0; 60]);
    let mut followed = Followed::begin("run", file.clone()).unwrap();
    // One ring has hits; another one had no room for any.
    file.copy(0, 0, 0, &[20]);
    file.block(block::RING, 0, &head_of(100, 1, 0));
    file.block(block::RING, 1, &head_of(101, 0, 4));
    file.flushed(50, 1);
    assert_eq!(taken(|take| followed.advance(take)), []);
    let whole = file.0.lock().unwrap().len();
    // The disk is full, and three hits and five more are lost, and one that no ring has seen.
    file.block(block::UNSEEN, 0, &[2, 0]);
    file.block(block::RING, 0, &head_of(100, 1, 3));
    file.block(block::RING, 1, &head_of(101, 0, 9));
    let mut bytes = file.0.lock().unwrap();
    let told = bytes.split_off(whole);
    bytes[room..][..told.len()].copy_from_slice(&told);
    let state_at = header::STATE * 8;
    bytes[state_at] = u8::try_from(state::CUT).unwrap();
    drop(bytes);
    // After this pass, what lies before its place may be gone.
    assert_eq!(taken(|take| followed.advance(take)), [(100, 20)]);
    assert!(followed.position() >= (room + told.len()) as u64);
    file.0.lock().unwrap()[room..whole].fill(0);
    assert_eq!(taken(|take| followed.finish(take)), [(0, 9), (0, 3)]);
    assert_eq!(followed.unseen(), 2);
}

#[test]
fn damaged_blocks_are_errors() {
    for words in [[1, block::READING, 40, 0], [block::MAGIC, block::SUB_BUFFER, 8 * 65, 0]] {
        let file = begun();
        let mut followed = Followed::begin("run", file.clone()).unwrap();
        let at = followed.position();
        file.words(&words);
        file.words(&[0; 80]);
        let error = followed.advance(|_| ()).unwrap_err().to_string();
        assert_eq!(error, format!("run can't be read: the block at byte {at} is damaged"));
    }
    let error = Followed::begin("run", GrowingFile::default()).unwrap_err().to_string();
    assert!(error.starts_with("run is no trace"), "{error}");
}
