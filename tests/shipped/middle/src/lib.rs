//! A library on top of [`leaf`], whose users may leave its probes out.

#![no_std]
#![forbid(unsafe_code)]
#![deny(warnings, missing_docs)]

use leaf::Frame;

/// A point, if there are probes. The attribute `#[probe]` puts it into its function's group.
#[allow(unused_macros)]
macro_rules! probe {
    ($($point:tt)*) => {
        #[cfg(feature = "probes")]
        probe_runtime::point!($($point)*);
    };
}

/// Reads frames one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Of these bytes.
    #[must_use]
    pub fn new(rest: &'a [u8]) -> Self {
        Self { rest }
    }

    /// The next frame, of as many bytes as its tag says.
    #[cfg_attr(feature = "probes", probe_runtime::probe(name = "Reader::next", group = "middle::reader"))]
    #[inline(never)]
    pub fn next_frame(&mut self) -> Option<Frame> {
        let head = self.rest.first()?;
        let (frame, rest) = self.rest.split_at_checked(1 + usize::from(*head))?;
        self.rest = rest;
        probe!("Reader::split", left = rest.len());
        leaf::decode(frame).ok()
    }
}

/// The payloads' lengths, summed up.
#[cfg_attr(feature = "probes", probe_runtime::probe)]
#[inline(never)]
#[must_use]
pub fn total(bytes: &[u8]) -> u64 {
    let mut reader = Reader::new(bytes);
    let mut total = 0;
    while let Some(frame) = reader.next_frame() {
        total += leaf::sum(&[u32::from(frame.tag), u32::try_from(frame.len).unwrap_or(u32::MAX)]);
    }
    total
}
