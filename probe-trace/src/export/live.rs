//! Perfetto's format, written while the program runs.
//!
//! Perfetto's reader sorts packets by their times, so the file needs no order across threads. A
//! call's slice begins and ends in packets of their own: a file that ends early has the beginning.
//!
//! Times are nanoseconds of `CLOCK_MONOTONIC`. Perfetto could take stamps of a clock of the trace's
//! own, but it knows that clock's unit in whole nanoseconds, and uses one offset between two
//! readings.

#[cfg(test)]
mod tests;

use std::io::{self, BufWriter, Cursor, Write};
use std::path::Path;

use super::{perfetto::Perfetto, sink::Sink};
use crate::calls::Pairing;
use crate::item::Item;
use crate::layout::reading;
use crate::reader::{RingReader, Rings};

/// Bytes that are written at once.
const WRITE_BUFFER_BYTES: usize = 1 << 16;
/// Nanoseconds between two packets that compare the system's clocks.
const CLOCK_SNAPSHOT_INTERVAL_NS: u64 = 1_000_000_000;

/// Writes a trace for Perfetto while its program runs, from the rings of its threads. After each
/// pass the file can be opened; slices that have not ended are shown as such.
///
/// Memory: one sub-buffer for each ring, open calls and futures, and each name once.
///
/// ```
/// use probe_trace::export::Live;
/// let error = Live::new(b"PK".to_vec(), Vec::new()).unwrap_err();
/// assert!(error.to_string().starts_with("the trace is no trace of latent probes"));
/// ```
pub struct Live<W: Write> {
    items: RingReader,
    pairing: Pairing,
    sink: Perfetto<BufWriter<W>>,
    /// `CLOCK_MONOTONIC` at the last packet that compares the clocks.
    last_snapshot: Option<u64>,
    events: u64,
}

impl<W: Write> Live<W> {
    /// Begins a file. `head` is the beginning of a trace as [`layout`](crate::layout) has it: the
    /// header, the program's name, the definitions.
    ///
    /// # Errors
    /// If that is no such beginning, or if the writer has an error.
    pub fn new(head: Vec<u8>, writer: W) -> io::Result<Self> {
        let (items, _) = RingReader::new(Path::new("the trace"), Cursor::new(head))
            .map_err(|it| io::Error::new(io::ErrorKind::InvalidData, it))?;
        let sink = Perfetto::new(BufWriter::with_capacity(WRITE_BUFFER_BYTES, writer))?;
        Ok(Self { items, pairing: Pairing::default(), sink, last_snapshot: None, events: 0 })
    }

    /// Adds definitions of further probes, before their first hits are written: the content of a
    /// block of them, as [`layout`](crate::layout) has it.
    ///
    /// ```no_run
    /// # fn joined(live: &mut probe_trace::export::Live<Vec<u8>>, block: &[u8]) {
    /// live.define(block);
    /// # }
    /// ```
    pub fn define(&mut self, definitions: &[u8]) {
        self.items.define(definitions);
    }

    /// Returns the number of hits so far. After a pass without an error, the writer has them all.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Returns the writer. After a pass without an error, it has all that was written.
    pub fn writer(&mut self) -> &mut W {
        self.sink.writer().get_mut()
    }

    /// Writes the hits up to this [reading] of all clocks, which was taken before the
    /// rings are read.
    ///
    /// # Errors
    /// If the writer has an error. The trace is not to be continued then.
    pub fn advance(&mut self, now: &[u64; reading::WORDS], rings: &mut impl Rings) -> io::Result<()> {
        let monotonic = now[reading::MONOTONIC];
        if self.last_snapshot.is_none_or(|last| monotonic.saturating_sub(last) >= CLOCK_SNAPSHOT_INTERVAL_NS)
        {
            self.last_snapshot = Some(monotonic);
            self.sink.write_clocks(now)?;
        }
        let Self { items, pairing, sink, events, .. } = self;
        let mut written = Ok(());
        items.advance(now, rings, |item| {
            *events += u64::from(matches!(item, Item::Event(_)));
            pairing.take(item);
            while let Some(step) = pairing.step() {
                written = std::mem::replace(&mut written, Ok(())).and_then(|()| sink.step(&step));
            }
        });
        written?;
        sink.finish()
    }

    /// Writes the hits that are left, and ends all slices. No thread may write to the rings any
    /// more.
    ///
    /// # Errors
    /// If the writer has an error.
    pub fn finish(&mut self, now: &[u64; reading::WORDS], rings: &mut impl Rings) -> io::Result<()> {
        self.advance(now, rings)?;
        self.items.finish(rings, |item| {
            self.events += u64::from(matches!(item, Item::Event(_)));
            self.pairing.take(item);
        });
        self.pairing.finish();
        while let Some(step) = self.pairing.step() {
            self.sink.step(&step)?;
        }
        self.sink.finish()
    }
}

impl<W: Write> std::fmt::Debug for Live<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Live").field("items", &self.items).finish_non_exhaustive()
    }
}
