//! The objects of a running program, read from its memory.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use probe_hooks::{ReadCache, Sleds, read_sleds};
use probe_inject::{InjectError, Mapping, Memory, maps};

use crate::elf::{Dynamic, Image, Runtime, Source, notes, usize_of};

/// Bytes of a page.
const PAGE: u64 = 4096;

/// A part of a file in memory: its place there, its address, its length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Part {
    offset: u64,
    start: u64,
    length: u64,
}

/// A file as far as a program has loaded it. The rest reads as zeros.
struct Loaded {
    memory: Arc<Memory>,
    parts: Vec<Part>,
}

impl Source for Loaded {
    fn length(&self) -> io::Result<u64> {
        Ok(self.parts.iter().map(|it| it.offset.saturating_add(it.length)).max().unwrap_or(0))
    }

    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<()> {
        into.fill(0);
        let end = at.saturating_add(into.len() as u64);
        for part in &self.parts {
            let (from, to) = (part.offset.max(at), part.offset.saturating_add(part.length).min(end));
            if from < to {
                let range = usize_of(from - at)..usize_of(to - at);
                // A part that can't be read, or is unmapped, stays zeros.
                let start = part.start.wrapping_add(from - part.offset);
                let _ = self.memory.read(start, &mut into[range]);
            }
        }
        Ok(())
    }
}

/// An object of a program.
pub struct Object {
    /// Its file, as the program knows it.
    pub name: String,
    /// The inode of its file.
    pub file: u64,
    /// The object, as it lies in memory.
    pub image: Image,
    /// The distance of its addresses in memory from those in its file.
    pub bias: u64,
    /// Its code in memory.
    pub code: Vec<Range<u64>>,
    /// The runtime in it.
    pub runtime: Option<Runtime>,
    /// Whether it has tables of probes or of sleds, or calls the hooks of `-finstrument-functions`.
    pub has_probes: bool,
}

impl Object {
    /// Returns whether an address is in its code.
    pub fn has_code(&self, address: u64) -> bool {
        self.code.iter().any(|it| it.contains(&address))
    }

    /// Returns whether it takes a function from another object.
    pub fn imports(&self, name: &str) -> bool {
        is_imported(&self.image, self.bias, name)
    }

    /// Returns whether its file's name begins with this one.
    pub fn is_called(&self, name: &str) -> bool {
        self.name.rsplit('/').next().is_some_and(|it| it.starts_with(name))
    }
}

/// Returns the objects of a program, in the order of their addresses.
///
/// # Errors
/// If the process is gone.
pub fn objects(pid: u32, memory: &Arc<Memory>) -> Result<Vec<Object>, InjectError> {
    let maps = maps(pid).map_err(|_| InjectError::NoProcess(pid))?;
    let mut files: HashMap<_, Vec<&Mapping>> = HashMap::new();
    for mapping in maps.iter().filter(|it| it.file.1 != 0) {
        files.entry(&mapping.file).or_default().push(mapping);
    }
    let mut objects = Vec::new();
    for code in maps.iter().filter(|it| it.is_executable) {
        // Each file is read once.
        let Some(of_file) = files.remove(&code.file) else { continue };
        let mut found = possible_starts(code, &of_file).find_map(|it| object(it, code, &of_file, memory));
        if let Some(object) = &mut found {
            object.has_probes |= has_sleds(pid, object);
        }
        objects.extend(found);
    }
    Ok(objects)
}

/// Returns whether an object's file has sleds. Their tables can't be found in memory.
fn has_sleds(pid: u32, object: &Object) -> bool {
    let read = || -> Option<Sleds> {
        let file = File::open(format!("/proc/{pid}/root{}", object.name)).ok()?;
        // Another file may have taken its name.
        let is_same = file.metadata().ok()?.ino() == object.file;
        read_sleds(&ReadCache::new(file)).ok().flatten().filter(|_| is_same)
    };
    read().is_some()
}

/// Returns the mappings at which an object with this code may begin, the nearest one first. A
/// program may have mapped the file elsewhere, too, to read it.
fn possible_starts<'a>(code: &Mapping, of_file: &[&'a Mapping]) -> impl Iterator<Item = &'a Mapping> {
    of_file.iter().rev().filter(|it| it.offset == 0 && it.start <= code.start).copied()
}

/// Reads an object that begins at a mapping, if its file is one, and has this code at the place
/// that follows from that. Linkers let segments share a page of the file, so the code of a small
/// object may be a mapping of the file's beginning, too.
fn object(first: &Mapping, code: &Mapping, of_file: &[&Mapping], memory: &Arc<Memory>) -> Option<Object> {
    let read = |own: &[&Mapping]| {
        let part = |it: &&Mapping| Part { offset: it.offset, start: it.start, length: it.end - it.start };
        let parts = own.iter().map(part).collect();
        Image::read(&first.name, Box::new(Loaded { memory: Arc::clone(memory), parts })).ok()
    };
    let of_file: Vec<_> = of_file.iter().copied().filter(|it| it.start >= first.start).collect();
    let whole = read(&of_file)?;
    let end = first.start.saturating_add(whole.load_end().wrapping_sub(whole.load_start()));
    let own: Vec<_> = of_file.into_iter().filter(|it| it.start < end).collect();
    let image = read(&own)?;
    let bias = first.start.wrapping_sub(image.load_start());
    let is_there = |text: Range<u64>| (text.start.wrapping_add(bias) & !(PAGE - 1)) == code.start;
    if !image.code_ranges().any(is_there) {
        return None;
    }
    let code = own.iter().filter(|it| it.is_executable).map(|it| it.start..it.end).collect();
    let has_tables = notes(&image).is_ok_and(|it| it.probes.is_some());
    Some(Object {
        name: first.name.trim_end_matches(" (deleted)").to_owned(),
        file: first.file.1,
        bias,
        code,
        runtime: Runtime::of(&image).ok().flatten(),
        has_probes: has_tables || is_imported(&image, bias, "__cyg_profile_func_enter"),
        image,
    })
}

/// Returns whether an object with this bias takes a function from another one.
fn is_imported(image: &Image, bias: u64, name: &str) -> bool {
    Dynamic::read(image, bias).and_then(|it| it.is_imported(name)).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_not_where_its_file_is_mapped_to_be_read() {
        let mapping = |start: u64, offset: u64, is_executable: bool| Mapping {
            start,
            end: start + 0x1000,
            is_writable: false,
            is_executable,
            offset,
            file: ("fe:00".to_owned(), 7),
            name: "/libc.so".to_owned(),
        };
        let maps = [
            mapping(0x1000, 0, false),
            mapping(0x5000, 0, false),
            mapping(0x6000, 0x1000, true),
            mapping(0x9000, 0, false),
        ];
        let maps: Vec<_> = maps.iter().collect();
        assert_eq!(possible_starts(maps[2], &maps).collect::<Vec<_>>(), [maps[1], maps[0]]);
        assert_eq!(possible_starts(maps[2], &maps[2..]).count(), 0);
    }

    #[test]
    fn parts_of_a_file_lie_anywhere() {
        let memory = Arc::new(Memory::open(std::process::id()).unwrap());
        let bytes: Vec<u8> = (0..100).collect();
        let start = bytes.as_ptr().addr() as u64;
        let parts =
            vec![Part { offset: 0, start: start + 50, length: 10 }, Part { offset: 20, start, length: 5 }];
        let loaded = Loaded { memory, parts };
        assert_eq!(loaded.length().unwrap(), 25);
        let mut read = [9; 20];
        loaded.read_at(&mut read, 5).unwrap();
        assert_eq!(read[..5], [55, 56, 57, 58, 59]);
        assert_eq!(read[5..15], [0; 10]);
        assert_eq!(read[15..], [0, 1, 2, 3, 4]);
    }
}
