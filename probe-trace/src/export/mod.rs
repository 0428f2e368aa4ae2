//! Exports: writes a trace in the formats of other tools.
//!
//! [`export`] pairs a trace's hits ([`calls`](crate::calls)) and writes each step at once, so it
//! never holds a trace in memory. It keeps threads, paths, and open calls and futures; folded
//! stacks also keep one sum for each distinct stack. Firefox Profiler's format is the exception: it
//! has no place for a part, so its export holds all of it.

#[cfg(feature = "chrome")]
mod chrome;
#[cfg(any(feature = "chrome", feature = "firefox", feature = "perfetto"))]
mod counter;
mod error;
#[cfg(feature = "firefox")]
mod firefox;
mod folded;
mod format;
#[cfg(feature = "perfetto")]
mod live;
#[cfg(any(feature = "chrome", feature = "firefox", feature = "perfetto"))]
mod name;
#[cfg(feature = "perfetto")]
mod perfetto;
mod sink;

use std::io::{BufWriter, Write};

pub use error::Error;
pub use format::{Format, UnknownFormat};
#[cfg(feature = "perfetto")]
pub use live::Live;

use crate::item::Item;
use crate::layout::reading;
use sink::Sink;

use crate::calls::Calls;

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
            let mut sink = perfetto::Perfetto::new(&mut writer)?;
            clocks.map_or(Ok(()), |now| sink.write_clocks(&now))?;
            run(sink, items)?;
        }
        #[cfg(not(feature = "perfetto"))]
        Format::Perfetto => return Err(Error::Disabled { feature: "perfetto" }),
        #[cfg(feature = "chrome")]
        Format::Chrome => run(chrome::Chrome::new(&mut writer)?, items)?,
        #[cfg(not(feature = "chrome"))]
        Format::Chrome => return Err(Error::Disabled { feature: "chrome" }),
        #[cfg(feature = "firefox")]
        Format::Firefox => run(firefox::Firefox::new(&mut writer, clocks), items)?,
        #[cfg(not(feature = "firefox"))]
        Format::Firefox => return Err(Error::Disabled { feature: "firefox" }),
        Format::Folded => run(folded::Folded::new(&mut writer), items)?,
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
