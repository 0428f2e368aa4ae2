//! Writes the steps of a trace in any format.

use std::fmt;
use std::io::{self, BufWriter, Write};

#[cfg(feature = "chrome")]
use super::chrome::Chrome;
#[cfg(feature = "firefox")]
use super::firefox::Firefox;
use super::folded::Folded;
use super::format::Format;
#[cfg(feature = "perfetto")]
use super::perfetto::Perfetto;
use crate::calls::{Begin, Calls, End, Instant, OffProcessor, Step};
use crate::item::{Gap, Item, Thread, ThreadId};
use crate::layout::reading;

/// One format's writer.
pub(super) trait Sink {
    fn thread(&mut self, thread: &Thread) -> io::Result<()>;
    fn begin(&mut self, begin: &Begin) -> io::Result<()>;
    fn end(&mut self, end: &End) -> io::Result<()>;
    fn instant(&mut self, _: &Instant) -> io::Result<()> {
        Ok(())
    }
    fn gap(&mut self, _: &Gap) -> io::Result<()> {
        Ok(())
    }
    fn off(&mut self, _: &OffProcessor) -> io::Result<()> {
        Ok(())
    }
    fn off_lost(&mut self, _: ThreadId, _time: u64) -> io::Result<()> {
        Ok(())
    }
    /// Writes the end.
    fn finish(&mut self) -> io::Result<()>;

    fn step(&mut self, step: &Step) -> io::Result<()> {
        match step {
            Step::Thread(thread) => self.thread(thread),
            Step::Begin(begin) => self.begin(begin),
            Step::End(end) => self.end(end),
            Step::Instant(instant) => self.instant(instant),
            Step::Gap(gap) => self.gap(gap),
            Step::Off(off) => self.off(off),
            Step::OffLost(thread, time) => self.off_lost(*thread, *time),
        }
    }
}

/// Writes items, which come in the order of time, in this format. `clocks` is a [reading] of all
/// clocks, such as [`Trace::clocks`](crate::Trace::clocks). With it, Perfetto and the Firefox
/// Profiler know the calendar time, and Perfetto can show the trace beside one of the kernel; other
/// formats have no place for it.
///
/// ```
/// use probe_trace::{Item, export::{Format, export}};
/// let items: Vec<Result<Item, std::io::Error>> = Vec::new();
/// let mut text = Vec::new();
/// export(Format::Folded, None, items, &mut text)?;
/// assert_eq!(text, b"");
/// # Ok::<(), probe_trace::export::Error<std::io::Error>>(())
/// ```
///
/// # Errors
/// - [`Error::Items`] if an item is an error. The output then has the items before, and is whole.
/// - [`Error::Write`] if the writer has an error.
/// - [`Error::Disabled`] if the format's feature is not enabled.
#[cfg_attr(
    not(any(feature = "firefox", feature = "perfetto")),
    expect(unused_variables, reason = "these alone have the clocks")
)]
pub fn export<E>(
    format: Format,
    clocks: Option<[u64; reading::WORDS]>,
    items: impl IntoIterator<Item = Result<Item, E>>,
    writer: impl Write,
) -> Result<(), Error<E>> {
    let mut writer = BufWriter::new(writer);
    match format {
        #[cfg(feature = "perfetto")]
        Format::Perfetto => {
            let mut sink = Perfetto::new(&mut writer)?;
            clocks.map_or(Ok(()), |now| sink.write_clocks(&now))?;
            run(sink, items)?;
        }
        #[cfg(feature = "chrome")]
        Format::Chrome => run(Chrome::new(&mut writer)?, items)?,
        #[cfg(feature = "firefox")]
        Format::Firefox => run(Firefox::new(&mut writer, clocks), items)?,
        Format::Folded => run(Folded::new(&mut writer), items)?,
        #[cfg(not(all(feature = "chrome", feature = "firefox", feature = "perfetto")))]
        other => return Err(Error::Disabled { feature: other.name() }),
    }
    Ok(writer.flush()?)
}

fn run<E>(mut sink: impl Sink, items: impl IntoIterator<Item = Result<Item, E>>) -> Result<(), Error<E>> {
    let mut error = None;
    for step in Calls::new(items) {
        match step {
            Ok(step) => sink.step(&step)?,
            Err(unread) => error = Some(unread),
        }
    }
    sink.finish()?;
    error.map_or(Ok(()), |error| Err(Error::Items(error)))
}

/// Why an export stopped.
///
/// ```
/// use probe_trace::export::Error;
/// let error: Error<std::fmt::Error> = Error::Disabled { feature: "perfetto" };
/// assert_eq!(
///     error.to_string(),
///     "`probe-trace` was built without this format: enable its feature `perfetto`"
/// );
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum Error<E> {
    /// The trace can't be read further. The items before are written, and the output is whole.
    Items(E),
    /// The output can't be written.
    Write(io::Error),
    /// The format is not built in.
    Disabled {
        /// The feature of `probe-trace` that has it.
        feature: &'static str,
    },
}

impl<E: fmt::Display> fmt::Display for Error<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Items(error) => write!(f, "can't read the trace further, so the export ends here: {error}"),
            Self::Write(error) => write!(f, "can't write the export: {error}"),
            Self::Disabled { feature } => {
                write!(f, "`probe-trace` was built without this format: enable its feature `{feature}`")
            }
        }
    }
}

impl<E: std::error::Error + 'static> std::error::Error for Error<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Items(error) => Some(error),
            Self::Write(error) => Some(error),
            Self::Disabled { .. } => None,
        }
    }
}

impl<E> From<io::Error> for Error<E> {
    fn from(error: io::Error) -> Self {
        Self::Write(error)
    }
}
