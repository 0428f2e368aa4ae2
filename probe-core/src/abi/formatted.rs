//! Values that format themselves when a consumer asks for it, and both ends of the interface that
//! their text crosses.
//!
//! Cost: the value's two words; no more until it is shown.

// Safety: relies on [`debug`] and [`display`] alone making a value's two words, and on its
// lifetime, which keeps the borrowed field alive.
#![expect(unsafe_code, reason = "see above")]

use core::fmt::{self, Debug, Display, Write};
use core::marker::PhantomData;
use core::slice;

use super::passage::{Formatting, Passage};
use crate::capture::{Kept, contained};

/// The receiver of the text of a [`Type::Format`](super::Type::Format) value. It is a C interface,
/// since the text may cross between the code of two compilers, for example a program and a plugin.
#[repr(C)]
pub struct Sink {
    /// Takes UTF-8 text; returns whether it accepts more.
    pub write: unsafe extern "C-unwind" fn(sink: *mut Sink, text: *const u8, len: usize) -> bool,
}

/// Writes the value at `data`; returns whether the sink took all of it.
pub(super) type FormatFn = unsafe extern "C-unwind" fn(data: *const (), sink: *mut Sink) -> bool;

impl<T: Debug + Copy> Kept<'_, T> {
    /// Makes the value of `field = ?expr`.
    #[inline(always)]
    pub fn debug<P: Passage>(&self) -> P::Out<'_> {
        P::formatted::<DebugFormatting<T>>((&raw const *self.get()).cast())
    }
}

impl<T: Display + Copy> Kept<'_, T> {
    /// Makes the value of `field = %expr`.
    #[inline(always)]
    pub fn display<P: Passage>(&self) -> P::Out<'_> {
        P::formatted::<DisplayFormatting<T>>((&raw const *self.get()).cast())
    }
}

struct DebugFormatting<T>(PhantomData<T>);

impl<T: Debug> Formatting for DebugFormatting<T> {
    unsafe extern "C-unwind" fn format(data: *const (), sink: *mut Sink) -> bool {
        // SAFETY: `data` is the field that `debug` took, alive for the value's lifetime.
        let field = unsafe { &*data.cast::<T>() };
        contained_format(sink, format_args!("{field:?}"))
    }
}

struct DisplayFormatting<T>(PhantomData<T>);

impl<T: Display> Formatting for DisplayFormatting<T> {
    unsafe extern "C-unwind" fn format(data: *const (), sink: *mut Sink) -> bool {
        // SAFETY: `data` is the field that `display` took, alive for the value's lifetime.
        let field = unsafe { &*data.cast::<T>() };
        contained_format(sink, format_args!("{field}"))
    }
}

/// Formats the text. A panic on the way is caught here: the field has failed, not the consumer.
fn contained_format(sink: *mut Sink, text: fmt::Arguments<'_>) -> bool {
    contained(|| SinkWriter(sink).write_fmt(text).is_ok())
        .unwrap_or_else(|| SinkWriter(sink).write_str(PANICKED).is_ok())
}

/// Text shown in place of the rest after a panic.
const PANICKED: &str = "(panicked)";

/// Calls `format` to write the value at `data`.
///
/// # Safety
/// `format` must have been made for the value at `data`.
pub(super) unsafe fn show(data: *const (), format: FormatFn, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut sink = FormatterSink::new(f);
    // SAFETY: the caller's promise; the sink is alive for the call. A panic reaches this place if
    // the site's library has no `std`.
    let formatted = contained(|| unsafe { format(data, (&raw mut sink).cast()) });
    sink.finish(formatted)
}

/// The site's end of a [`Sink`]: turns `fmt::Write` into the C interface.
struct SinkWriter(*mut Sink);

impl Write for SinkWriter {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // SAFETY: the sink is alive for the call that made this writer.
        if unsafe { ((*self.0).write)(self.0, text.as_ptr(), text.len()) } { Ok(()) } else { Err(fmt::Error) }
    }
}

/// The consumer's end of a [`Sink`].
#[repr(C)]
struct FormatterSink<'f, 'o> {
    sink: Sink,
    out: &'f mut fmt::Formatter<'o>,
    /// A panic of the consumer's own writer. It must not be caught by the field's formatting, nor
    /// count as the field's.
    #[cfg(feature = "std")]
    panic: Option<Box<dyn core::any::Any + Send>>,
}

impl<'f, 'o> FormatterSink<'f, 'o> {
    fn new(out: &'f mut fmt::Formatter<'o>) -> Self {
        Self {
            sink: Sink { write: Self::write },
            out,
            #[cfg(feature = "std")]
            panic: None,
        }
    }

    unsafe extern "C-unwind" fn write(sink: *mut Sink, text: *const u8, len: usize) -> bool {
        // SAFETY: `show` passed a `FormatterSink`, of which `sink` is the first field.
        let this = unsafe { &mut *sink.cast::<Self>() };
        // SAFETY: a writer passes a `str`'s parts.
        this.take(unsafe { str::from_utf8_unchecked(slice::from_raw_parts(text, len)) })
    }

    #[cfg(feature = "std")]
    fn take(&mut self, text: &str) -> bool {
        use std::panic::{AssertUnwindSafe, catch_unwind};

        if self.panic.is_some() {
            return false;
        }
        match catch_unwind(AssertUnwindSafe(|| self.out.write_str(text).is_ok())) {
            Ok(complete) => complete,
            Err(payload) => {
                self.panic = Some(payload);
                false
            }
        }
    }

    #[cfg(not(feature = "std"))]
    fn take(&mut self, text: &str) -> bool {
        self.out.write_str(text).is_ok()
    }

    /// Ends the write. `formatted` is `None` if the field panicked.
    fn finish(self, formatted: Option<bool>) -> fmt::Result {
        #[cfg(feature = "std")]
        if let Some(payload) = self.panic {
            std::panic::resume_unwind(payload);
        }
        match formatted {
            Some(true) => Ok(()),
            Some(false) => Err(fmt::Error),
            None => self.out.write_str(PANICKED),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::string::{String, ToString};

    use super::*;
    use crate::abi::Value;
    use crate::abi::passage::InMemory;
    use crate::capture::{shown_as_debug, shown_as_display};

    fn shown(value: Value<'_>) -> String {
        value.get().to_string()
    }

    #[test]
    fn formatted_values_cross_the_c_interface() {
        assert_eq!(shown(shown_as_debug(&Some("x")).keep().debug::<InMemory>()), "Some(\"x\")");
        assert_eq!(shown(shown_as_display("x").keep().display::<InMemory>()), "x");
        let slice: &[u32] = &[1, 2];
        assert_eq!(shown(shown_as_debug(slice).keep().debug::<InMemory>()), "[1, 2]");
        let text = String::from("not copied");
        assert_eq!(shown(shown_as_display(&text).keep().display::<InMemory>()), text);
    }

    struct Panics;

    impl Debug for Panics {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("half of it ")?;
            panic!("the field's own");
        }
    }

    /// Takes some text, then panics.
    struct Full(String);

    impl Write for Full {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            assert!(self.0.is_empty(), "the consumer's own");
            self.0.push_str(text);
            Ok(())
        }
    }

    #[test]
    #[cfg(feature = "std")]
    fn panics_of_fields_and_of_writers_are_told_apart() {
        use std::panic::{AssertUnwindSafe, catch_unwind};

        let kept = shown_as_debug(&Panics).keep();
        assert_eq!(shown(kept.debug::<InMemory>()), "half of it (panicked)");
        let failed = crate::failed_captures();
        assert_eq!(shown(kept.debug::<InMemory>()), "half of it (panicked)");
        assert_eq!(crate::failed_captures() - failed, 1);
        let list = [1, 2];
        let kept = shown_as_debug(&list).keep();
        let value = kept.debug::<InMemory>();
        let mut full = Full(String::new());
        let result = catch_unwind(AssertUnwindSafe(|| write!(full, "{}", value.get())));
        assert_eq!(result.unwrap_err().downcast_ref(), Some(&"the consumer's own"));
        assert_eq!((full.0.as_str(), crate::failed_captures() - failed), ("[", 1));
    }
}
