//! Copies of loaded objects' unwind tables (`PT_GNU_EH_FRAME`; Linux Standard Base, 10.6.2), so
//! that hits read them although the objects may be unloaded.

// Safety: relies on the dynamic linker's program headers, which describe the mapped memory while
// the iteration holds its lock.
#![expect(unsafe_code, reason = "see above")]
#![expect(clippy::unused_self, reason = "as long as this is borrowed, objects stay")]

use std::ops::Range;
use std::slice;

use probe_hooks::unwinding::{Section, UnwindTables, frames_addr, frames_len};

use super::iterate;
use super::objects::{Frozen, Object, ProgramHeaders, object};

/// The unwind tables of an object.
#[derive(PartialEq, Eq, Hash, Debug)]
pub(crate) struct UnwindCopy {
    header: (u64, Box<[u8]>),
    frames: (u64, Box<[u8]>),
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
    Some(UnwindCopy {
        header: (header.start as u64, header_bytes.into()),
        frames: (start as u64, frames.into()),
    })
}

/// Returns the bytes of a part of a segment.
fn bytes<'a>(range: Range<usize>) -> &'a [u8] {
    // SAFETY: within a mapped segment, which stays as long as the iteration. Segments that hold
    // unwind tables are readable.
    unsafe { slice::from_raw_parts(range.start as *const u8, range.len()) }
}
