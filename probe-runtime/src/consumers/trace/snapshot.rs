//! Copies rings into a file, beside the threads that write them.

use std::io::{self, Write};
use std::path::Path;

use probe_trace::layout::{block, event, ring, sub_buffer};

use super::clocks::Moment;
use super::file::TraceFile;
use super::ring::Ring;
use super::running::Running;
use crate::engine::os;
use crate::engine::os::guarded_file::GuardedFile;
use crate::report::file;

/// Writes a snapshot to a file, which appears whole, and replaces one of this name. A pipe or
/// another stream is written in place.
pub(super) fn to_file(running: &Running, path: &Path) -> io::Result<()> {
    let write_to = |file: GuardedFile| {
        let mut out = io::BufWriter::with_capacity(1 << 16, file);
        write(running, &mut out)?;
        out.flush()
    };
    if file::is_stream(path) {
        return write_to(os::stream::open(path)?);
    }
    file::replace(path, |beside| write_to(file::create(beside)?))
}

/// Writes a whole file with the rings' present content. Threads go on meanwhile; the file lacks the
/// events that they write after their ring was copied.
pub(super) fn write(running: &Running, out: impl Write) -> io::Result<()> {
    let mut file = TraceFile::begin(out, &running.about(true))?;
    for ring in running.rings() {
        copy(running, ring, &mut file)?;
    }
    end(running, &mut file)?;
    Ok(())
}

/// Writes the sub-buffers of a ring, and its head as it was at the last of them.
fn copy<W: Write>(running: &Running, ring: Ring<'_>, file: &mut TraceFile<W>) -> io::Result<()> {
    let mut head = ring.head_words();
    for sub_buffer in ring.numbers(running.shape) {
        // A sub-buffer that its thread has begun anew since is one of the oldest.
        let Some(words) = file.sub_buffer(ring, running.shape, sub_buffer)? else { continue };
        let written = words[sub_buffer::WRITTEN_BEFORE] + events(words);
        if written > head[ring::WRITTEN] {
            head[ring::WRITTEN] = written;
        }
    }
    file.words(block::RING, ring.number(), &head)
}

/// Writes the last blocks of a file.
pub(super) fn end<W: Write>(running: &Running, file: &mut TraceFile<W>) -> io::Result<()> {
    // Read after the rings, so that all hits that were copied have their definitions.
    file.define(&running.later(file.defined()))?;
    file.words(block::UNSEEN, 0, &running.unseen())?;
    file.reading(Moment::now(running.clock))
}

/// Returns the number of events in a copy of a sub-buffer.
pub(super) fn events(words: &[u64]) -> u64 {
    let (mut at, mut events) = (sub_buffer::WORDS, 0);
    while let Some(word) = words.get(at) {
        at += 1 + event::payload(*word);
        events += u64::from(event::probe(*word) != event::CONTROL);
    }
    events
}
