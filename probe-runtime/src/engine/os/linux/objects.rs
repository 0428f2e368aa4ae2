//! The loaded objects (executable, shared objects, plugins), with their segments and notes, from
//! `dl_iterate_phdr(3)`.

// Safety: relies on the dynamic linker's program headers, which describe the mapped memory while
// the iteration holds its lock.
#![expect(unsafe_code, reason = "see above")]
#![expect(clippy::unused_self, reason = "as long as this is borrowed, objects stay")]

use std::collections::hash_map::DefaultHasher;
use std::ffi::CStr;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::ops::Range;
use std::panic::{self, AssertUnwindSafe};
use std::slice;

use super::iterate;

/// One loaded object that has a note of the requested kind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Object {
    /// The path of its file; empty for the executable.
    pub(crate) name: String,
    /// The difference between its addresses in memory and in its file.
    pub(crate) base: usize,
    pub(crate) segments: Vec<Segment>,
    /// The descriptors of its notes, each wholly inside a segment.
    pub(crate) notes: Vec<Range<usize>>,
    /// Whether it is the executable, which is never unloaded.
    pub(crate) is_main: bool,
}

/// One mapped segment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Segment {
    pub(crate) range: Range<usize>,
    /// The end of what the file fills.
    pub(crate) filled: usize,
    pub(crate) is_text: bool,
    pub(crate) is_data: bool,
}

#[cfg(test)]
impl Segment {
    pub(crate) fn of(range: Range<usize>, is_text: bool) -> Self {
        Self { filled: range.end, range, is_text, is_data: false }
    }
}

/// How often objects were loaded and unloaded. Changes whenever the list of objects does.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Generation {
    adds: u64,
    subs: u64,
}

impl Generation {
    /// Returns whether no object was unloaded since `earlier`. Objects may have been loaded since.
    pub(crate) fn has_lost_none_since(self, earlier: Self) -> bool {
        self.subs == earlier.subs
    }
}

/// Proof that no object can be unloaded, since the dynamic linker's lock is held. See [`freeze`].
pub(crate) struct Frozen {
    generation: Generation,
    not_send: PhantomData<*mut ()>,
}

/// Proof that all objects that the registry knows stay loaded as long as `'a` lasts: it was
/// refreshed under the same freeze, or knows the executable alone. A freeze by itself proves less,
/// since an object may have gone before it. All that lies in an object (sites, definitions and
/// their text) is reached through the registry, which asks for this proof.
#[derive(Clone, Copy)]
pub(crate) struct KeptLoaded<'a>(PhantomData<&'a Frozen>);

impl KeptLoaded<'_> {
    /// # Safety
    /// While `'_` lasts, no object that the registry knows may be unloaded, nor may the registry
    /// learn of others that may be.
    pub(crate) unsafe fn new() -> Self {
        Self(PhantomData)
    }
}

/// Runs `run` while no object can be unloaded or enter the list of objects.
///
/// glibc unmaps objects and changes their list under one lock, which `dl_iterate_phdr` holds around
/// its callback; `run` is that callback. musl never unmaps an object. Rules for `run`:
///
/// - The holder may take the lock again, so `dl_iterate_phdr` and unwinding work.
/// - `dlopen`, `dlsym`, `dlclose` and constructors hold another lock, which is taken *before* this
///   one. So `run` must not call these functions, nor do anything that takes their lock. A first
///   use of a thread-local does if the thread-local has a destructor, or if it is in a library that
///   was itself loaded late.
/// - Allocation is fine: no allocator waits for the dynamic linker. (The standard library's
///   backtraces allocate there, too.)
/// - An object in the list may still be loading: its segments are mapped, but not yet relocated.
///
/// A panic in `run` resumes in the caller; it does not cross the dynamic linker's frames.
///
/// Cost: some 50 ns. Other threads that load, unload or look at objects wait for `run`.
pub(crate) fn freeze<T>(run: impl FnOnce(&Frozen) -> T) -> T {
    let (mut run, mut done) = (Some(run), None);
    freeze_through(&mut |frozen| done = run.take().map(|run| run(frozen)));
    done.expect("it was run")
}

/// Calls `run` once, for [`freeze`]. Not generic, so it is compiled only once.
fn freeze_through(run: &mut dyn FnMut(&Frozen)) {
    let mut done = None;
    iterate(&mut |info| {
        let generation = Generation { adds: info.dlpi_adds, subs: info.dlpi_subs };
        let frozen = Frozen { generation, not_send: PhantomData };
        done = Some(panic::catch_unwind(AssertUnwindSafe(|| run(&frozen))));
        false
    });
    match done {
        Some(Ok(())) => (),
        Some(Err(payload)) => panic::resume_unwind(payload),
        // There is no object at all, so none can be unloaded.
        None => run(&Frozen { generation: Generation::default(), not_send: PhantomData }),
    }
}

impl Frozen {
    /// Returns how often objects were loaded and unloaded until now.
    pub(crate) fn generation(&self) -> Generation {
        self.generation
    }

    /// Returns the loaded objects that carry a note with this owner and type. Considers only the
    /// objects with these numbers, in the order in which they were loaded.
    pub(crate) fn loaded(&self, numbers: Range<usize>, owner: &[u8], ty: u32) -> Vec<Object> {
        let mut objects = Vec::new();
        let mut number = 0;
        iterate(&mut |info| {
            if numbers.contains(&number) {
                let object = object(info, owner, |it| it == ty, number == 0);
                objects.extend(object.filter(|object| !object.notes.is_empty()));
            }
            number += 1;
            true
        });
        objects
    }

    /// Returns the addresses of the program headers of all loaded objects, in the order of loading.
    pub(crate) fn headers(&self) -> Vec<usize> {
        let mut headers = Vec::new();
        iterate(&mut |info| {
            headers.push(info.dlpi_phdr.addr());
            true
        });
        headers
    }

    /// Returns the files of all loaded objects that carry a note with this owner and another type.
    /// A later version of this crate has made these notes.
    pub(crate) fn others(&self, owner: &[u8], ty: u32) -> Vec<String> {
        let mut names = Vec::new();
        let mut is_main = true;
        iterate(&mut |info| {
            let other = object(info, owner, |it| it != ty, is_main).filter(|object| !object.notes.is_empty());
            names.extend(other.map(Object::file));
            is_main = false;
            true
        });
        names
    }
}

impl Object {
    /// Returns whether this address lies in the object.
    pub(crate) fn holds(&self, addr: usize) -> bool {
        self.segments.iter().any(|segment| segment.range.contains(&addr))
    }

    /// Returns a hash that tells the object from others that were loaded at the same place; not 0.
    pub(crate) fn identity(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (&self.name, self.base).hash(&mut hasher);
        self.segments.iter().for_each(|segment| (&segment.range, segment.is_text).hash(&mut hasher));
        hasher.finish().max(1)
    }

    fn file(self) -> String {
        let executable = || {
            std::env::current_exe().map_or_else(|_| "the executable".into(), |it| it.display().to_string())
        };
        if self.name.is_empty() { executable() } else { self.name }
    }
}

impl Frozen {
    /// Returns all loaded objects, with or without notes.
    pub(crate) fn every(&self) -> Vec<Object> {
        let mut objects = Vec::new();
        iterate(&mut |info| {
            objects.extend(object(info, &[], |_| false, objects.is_empty()));
            true
        });
        objects
    }
}

/// The program headers of a loaded object, with their places in memory.
pub(super) struct ProgramHeaders<'a> {
    pub(super) base: usize,
    all: &'a [libc::Elf64_Phdr],
}

impl<'a> ProgramHeaders<'a> {
    pub(super) fn of(info: &'a libc::dl_phdr_info) -> Option<Self> {
        // SAFETY: the dynamic linker's own table of program headers.
        let all = unsafe { slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
        Some(Self { base: usize::try_from(info.dlpi_addr).ok()?, all })
    }

    /// Returns the headers of this type, each with its range in memory.
    pub(super) fn of_type(&self, ty: u32) -> impl Iterator<Item = (&'a libc::Elf64_Phdr, Range<usize>)> {
        let base = self.base;
        self.all.iter().filter(move |header| header.p_type == ty).filter_map(move |header| {
            let start = base.wrapping_add(usize::try_from(header.p_vaddr).ok()?);
            Some((header, start..start.checked_add(usize::try_from(header.p_memsz).ok()?)?))
        })
    }

    /// Returns the ranges of this type whose rights include this one.
    pub(super) fn ranges(&self, ty: u32, right: u32) -> impl Iterator<Item = Range<usize>> {
        self.of_type(ty).filter(move |(header, _)| header.p_flags & right != 0).map(|(_, range)| range)
    }
}

pub(super) fn object(
    info: &libc::dl_phdr_info,
    owner: &[u8],
    is_type: impl Fn(u32) -> bool + Copy,
    is_main: bool,
) -> Option<Object> {
    let headers = ProgramHeaders::of(info)?;
    let segments: Vec<Segment> = (headers.of_type(libc::PT_LOAD))
        .filter_map(|(header, range)| {
            let filled = usize::try_from(header.p_filesz.min(header.p_memsz)).ok()?;
            let has = |flag| header.p_flags & flag != 0;
            let (is_text, is_data) = (has(libc::PF_X), has(libc::PF_W));
            Some(Segment { filled: range.start + filled, range, is_text, is_data })
        })
        .collect();
    let is_mapped = |bytes: &Range<usize>| {
        segments.iter().any(|segment| segment.range.start <= bytes.start && bytes.end <= segment.range.end)
    };
    let notes: Vec<Range<usize>> = (headers.of_type(libc::PT_NOTE))
        .map(|(_, range)| range)
        .filter(is_mapped)
        .flat_map(|bytes| {
            // SAFETY: the bytes lie within a mapped segment.
            let data = unsafe { slice::from_raw_parts(bytes.start as *const u8, bytes.len()) };
            notes(data, owner, is_type).map(move |at| bytes.start + at.start..bytes.start + at.end)
        })
        .collect();
    let name = if info.dlpi_name.is_null() {
        String::new()
    } else {
        // SAFETY: the dynamic linker's own string.
        unsafe { CStr::from_ptr(info.dlpi_name) }.to_string_lossy().into_owned()
    };
    Some(Object { name, base: headers.base, segments, notes, is_main })
}

/// Returns the ranges of the matching notes' descriptors in a note segment. Pure.
///
/// Looks at each multiple of four, and not from one note to the next: a linker may join notes of
/// different alignments, so that the padding between them can't be told.
fn notes<'a>(
    data: &'a [u8],
    owner: &'a [u8],
    is_type: impl Fn(u32) -> bool + 'a,
) -> impl Iterator<Item = Range<usize>> + 'a {
    const HEADER: usize = 12;
    let word = |at: usize| Some(u32::from_le_bytes(data.get(at..at + 4)?.try_into().ok()?));
    let len = move |at: usize| usize::try_from(word(at)?).ok();
    let mut at = 0;
    std::iter::from_fn(move || {
        while let (Some(name_len), Some(desc_len), Some(found)) = (len(at), len(at + 4), word(at + 8)) {
            let name = at + HEADER;
            at += 4;
            if name_len != owner.len() || data.get(name..name + name_len) != Some(owner) || owner.is_empty() {
                continue;
            }
            let desc = name + name_len.next_multiple_of(4);
            if let Some(end) = desc.checked_add(desc_len).filter(|end| *end <= data.len()) {
                at = end.next_multiple_of(4);
                if is_type(found) {
                    return Some(desc..end);
                }
            }
        }
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn note(owner: &[u8], ty: u32, desc: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for word in [owner.len(), desc.len(), ty as usize] {
            bytes.extend(u32::try_from(word).unwrap().to_le_bytes());
        }
        for part in [owner, desc] {
            bytes.extend(part);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        bytes
    }

    #[test]
    fn finds_its_own_among_others() {
        let mut data = note(b"GNU\0", 3, &[1; 20]);
        data.extend(note(b"LatentProbe\0", 1, &[7; 32]));
        data.extend(note(b"LatentProbe\0", 2, &[8; 8]));
        let found: Vec<_> = notes(&data, b"LatentProbe\0", |ty| ty == 1).collect();
        assert_eq!(found.len(), 1);
        assert_eq!(data[found[0].clone()], [7; 32]);
        let later: Vec<_> = notes(&data, b"LatentProbe\0", |ty| ty != 1).collect();
        assert_eq!(later.len(), 1);
        assert_eq!(data[later[0].clone()], [8; 8]);
    }

    /// mold joins notes that are aligned to 8 with those that are aligned to 4.
    #[test]
    fn padding_of_any_length_lies_between_notes() {
        for padding in [0, 4, 8, 12] {
            let mut data = note(b"GNU\0", 3, &[1; 20]);
            data.resize(data.len() + padding, 0);
            for byte in [7, 8] {
                data.extend(note(b"LatentProbe\0", 1, &[byte; 32]));
                data.resize(data.len() + padding, 0);
            }
            let found: Vec<_> =
                notes(&data, b"LatentProbe\0", |ty| ty == 1).map(|at| data[at][..32].to_vec()).collect();
            assert_eq!(found, [[7; 32], [8; 32]], "{padding}");
        }
    }

    #[test]
    fn a_truncated_note_is_none() {
        let whole = note(b"LatentProbe\0", 1, &[7; 32]);
        for len in 0..whole.len() {
            assert_eq!(notes(&whole[..len], b"LatentProbe\0", |ty| ty == 1).count(), 0);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "dl_iterate_phdr(3)")]
    fn the_test_program_is_an_object_of_its_own() {
        let mut mains = 0;
        let mut objects = 0;
        let mut is_main = true;
        iterate(&mut |_| {
            mains += usize::from(std::mem::take(&mut is_main));
            objects += 1;
            true
        });
        assert_eq!(mains, 1);
        assert!(objects >= 1);
        assert_eq!(freeze(Frozen::generation), freeze(Frozen::generation));
    }

    #[test]
    fn what_has_gone_is_counted_apart_from_what_came() {
        let at = |adds, subs| Generation { adds, subs };
        assert!(at(7, 2).has_lost_none_since(at(7, 2)));
        assert!(at(9, 2).has_lost_none_since(at(7, 2)));
        assert!(!at(9, 3).has_lost_none_since(at(7, 2)));
        assert!(!at(7, 3).has_lost_none_since(at(7, 2)));
    }

    #[test]
    #[cfg_attr(miri, ignore = "dl_iterate_phdr(3)")]
    fn a_panic_leaves_the_lock_free() {
        let panicked = panic::catch_unwind(|| freeze(|_| panic!("inside")));
        assert_eq!(panicked.unwrap_err().downcast_ref::<&str>(), Some(&"inside"));
        // Another thread could not take the lock if it were held.
        assert!(std::thread::spawn(|| freeze(|frozen| frozen.generation().adds)).join().unwrap() > 0);
    }

    #[test]
    #[cfg_attr(miri, ignore = "dl_iterate_phdr(3)")]
    fn frozen_twice_is_frozen() {
        let (outer, inner) = freeze(|outer| (outer.generation(), freeze(Frozen::generation)));
        assert_eq!(outer, inner);
    }

    proptest! {
        #[test]
        fn never_panics(data: Vec<u8>) {
            let _ = notes(&data, b"LatentProbe\0", |_| true).count();
        }
    }
}
