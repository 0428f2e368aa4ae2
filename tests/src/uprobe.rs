//! The kernel's uprobes on this process's own program, by way of `perf_event_open(2)`: only this
//! process has them, though others may run the same file. As root.

// Safety: relies on descriptors that this file opens.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::FromRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use perf_event_open_sys::bindings::{
    PERF_FLAG_FD_CLOEXEC, perf_event_attr, perf_event_attr__bindgen_ty_3 as Path,
    perf_event_attr__bindgen_ty_4 as Offset,
};
use perf_event_open_sys::perf_event_open;

/// The number of the kernel's unit for uprobes.
const UNIT: &str = "/sys/bus/event_source/devices/uprobe/type";

/// Why there are no uprobes here, if so.
#[must_use]
pub fn missing() -> Option<String> {
    open(missing as fn() -> Option<String> as usize).err().map(|error| format!("perf_event_open: {error}"))
}

/// Whether the kernel makes calls of the NOPs of five bytes that uprobes sit on (Linux 6.18,
/// x86-64), and so writes whole instructions.
///
/// # Panics
/// If the kernel does not tell its version.
#[must_use]
pub fn writes_calls() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").expect("the kernel's version");
    let mut numbers = release.split('.').map(|number| number.parse().unwrap_or(0));
    (numbers.next(), numbers.next()) >= (Some(6), Some(18))
}

/// A uprobe, switched on; dropping it takes it away.
pub struct Uprobe(File);

impl Uprobe {
    /// Puts one on an instruction of this process's program. It counts hits of this thread.
    ///
    /// # Panics
    /// If the kernel refuses it.
    #[must_use]
    pub fn put(addr: usize) -> Self {
        Self(open(addr).expect("a uprobe"))
    }

    /// How often it was hit.
    ///
    /// # Panics
    /// If the kernel does not tell.
    #[must_use]
    pub fn hits(&self) -> u64 {
        let mut hits = [0; 8];
        (&self.0).read_exact(&mut hits).expect("the uprobe's hits");
        u64::from_ne_bytes(hits)
    }

    /// Takes it away.
    pub fn take_away(self) {
        drop(self);
    }
}

/// Opens the event of a uprobe.
fn open(addr: usize) -> io::Result<File> {
    let unit = fs::read_to_string(UNIT)?;
    let (path, offset) = place(addr);
    let path = CString::new(path.as_os_str().as_bytes()).expect("a path");
    let mut attributes = perf_event_attr {
        type_: unit.trim().parse().map_err(io::Error::other)?,
        size: u32::try_from(size_of::<perf_event_attr>()).expect("some hundred"),
        __bindgen_anon_3: Path { uprobe_path: path.as_ptr().expose_provenance() as u64 },
        __bindgen_anon_4: Offset { probe_offset: offset as u64 },
        ..perf_event_attr::default()
    };
    let flags = PERF_FLAG_FD_CLOEXEC.into();
    // SAFETY: the attributes and the path live until the call returns. This thread, any processor,
    // no group.
    let fd = unsafe { perf_event_open(&raw mut attributes, 0, -1, -1, flags) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor, which nobody else has.
    Ok(unsafe { File::from_raw_fd(fd) })
}

/// The file that is mapped at an address, and the offset in it.
fn place(addr: usize) -> (PathBuf, usize) {
    let maps = fs::read_to_string("/proc/self/maps").expect("mappings");
    let number = |text: &str| usize::from_str_radix(text, 16).expect("a number");
    let found = maps.lines().find_map(|line| {
        let words: Vec<_> = line.split_whitespace().collect();
        let (start, end) = words[0].split_once('-').map(|(start, end)| (number(start), number(end)))?;
        let offset = (start..end).contains(&addr).then(|| number(words[2]) + addr - start)?;
        Some((PathBuf::from(words.get(5)?), offset))
    });
    found.expect("a mapped file")
}
