//! Unwind tables of loaded objects (`PT_GNU_EH_FRAME`; Linux Standard Base, 10.6.2): those of the
//! executable, and copies of the others, so that hits read them although an object may be unloaded.

// Safety: relies on the dynamic linker's program headers, which describe the mapped memory while
// the iteration holds its lock.
#![expect(unsafe_code, reason = "see above")]
#![expect(clippy::unused_self, reason = "as long as this is borrowed, objects stay")]

use std::borrow::Cow;
use std::ops::Range;
use std::slice;

use probe_hooks::unwinding::{Section, UnwindTables, frames_addr, frames_len};

use super::iterate;
use super::objects::{Frozen, Object, ProgramHeaders, object};

/// The unwind tables of an object.
#[derive(PartialEq, Eq, Hash, Debug)]
pub(crate) struct UnwindCopy {
    header: (u64, Cow<'static, [u8]>),
    frames: (u64, Cow<'static, [u8]>),
}

impl UnwindCopy {
    /// Returns the tables.
    pub(crate) fn tables(&self) -> UnwindTables<'_> {
        let [header, frames] =
            [&self.header, &self.frames].map(|(addr, bytes)| Section { addr: *addr, bytes });
        UnwindTables { header, frames }
    }
}

impl Frozen {
    /// Returns all loaded objects, each with its unwind tables. `known` may have a copy already.
    pub(crate) fn every_with_tables<T>(
        &self,
        mut known: impl FnMut(&Object) -> Option<T>,
        mut new: impl FnMut(Object, Option<UnwindCopy>) -> T,
    ) -> Vec<T> {
        let mut objects = Vec::new();
        iterate(&mut |info| {
            if let Some(object) = object(info, &[], |_| false, objects.is_empty()) {
                objects.push(known(&object).unwrap_or_else(|| {
                    let tables = ProgramHeaders::of(info).and_then(|headers| copy(&headers, &object));
                    new(object, tables)
                }));
            }
            true
        });
        objects
    }
}

fn copy(headers: &ProgramHeaders<'_>, object: &Object) -> Option<UnwindCopy> {
    let (_, header) = headers.of_type(libc::PT_GNU_EH_FRAME).next()?;
    let segment = |addr: usize| {
        object.segments.iter().find(|segment| (segment.range.start..segment.filled).contains(&addr))
    };
    let header = header.start..header.end.min(segment(header.start)?.filled);
    let header_bytes = bytes(header.clone());
    let section = Section { addr: header.start as u64, bytes: header_bytes };
    let start = usize::try_from(frames_addr(section)?).ok()?;
    let rest = bytes(start..segment(start)?.filled);
    let frames = &rest[..frames_len(rest)];
    // The executable is never unloaded.
    let kept = |bytes: &'static [u8]| {
        if object.is_main { Cow::Borrowed(bytes) } else { Cow::Owned(bytes.to_vec()) }
    };
    Some(UnwindCopy {
        header: (header.start as u64, kept(header_bytes)),
        frames: (start as u64, kept(frames)),
    })
}

/// Returns the bytes of a part of a segment, which stays as long as its object.
fn bytes(range: Range<usize>) -> &'static [u8] {
    // SAFETY: within a mapped segment; callers keep none of an object that may be unloaded once the
    // iteration ends. Segments that hold unwind tables are readable.
    unsafe { slice::from_raw_parts(range.start as *const u8, range.len()) }
}
