//! The kernel's uprobes on this process's own program, by way of tracefs. As root.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicUsize, Ordering};

const TRACEFS: &str = "/sys/kernel/tracing";
const GROUP: &str = "probe_tests";

/// Why there are no uprobes here, if so.
#[must_use]
pub fn missing() -> Option<String> {
    let events = Path::new(TRACEFS).join("uprobe_events");
    let opened = OpenOptions::new().append(true).open(&events);
    opened.err().map(|error| format!("{}: {error}", events.display()))
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
pub struct Uprobe {
    name: String,
    is_gone: bool,
}

impl Uprobe {
    /// Puts one on an instruction of this process's program.
    ///
    /// # Panics
    /// If the kernel refuses it.
    #[must_use]
    pub fn put(addr: usize) -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let name = format!("u{}_{}", process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let (path, offset) = place(addr);
        append("uprobe_events", &format!("p:{GROUP}/{name} {}:{offset:#x}", path.display()))
            .expect("a uprobe");
        let uprobe = Self { name, is_gone: false };
        uprobe.enable("1").expect("switched on");
        uprobe
    }

    /// How often it was hit.
    ///
    /// # Panics
    /// If the kernel does not tell.
    #[must_use]
    pub fn hits(&self) -> u64 {
        let profile = fs::read_to_string(Path::new(TRACEFS).join("uprobe_profile")).expect("uprobes' hits");
        let of = |line: &str| {
            let (rest, hits) = line.trim_end().rsplit_once(' ')?;
            rest.trim_end().ends_with(&self.name).then(|| hits.parse().ok())?
        };
        profile.lines().find_map(of).expect("the uprobe's hits")
    }

    /// Takes it away.
    ///
    /// # Panics
    /// If the kernel refuses that.
    pub fn take_away(mut self) {
        self.remove().expect("taken away");
    }

    fn enable(&self, is_on: &str) -> io::Result<()> {
        fs::write(Path::new(TRACEFS).join("events").join(GROUP).join(&self.name).join("enable"), is_on)
    }

    fn remove(&mut self) -> io::Result<()> {
        if std::mem::replace(&mut self.is_gone, true) {
            return Ok(());
        }
        self.enable("0")?;
        append("uprobe_events", &format!("-:{GROUP}/{}", self.name))
    }
}

impl Drop for Uprobe {
    fn drop(&mut self) {
        let _ = self.remove();
    }
}

fn append(file: &str, line: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().append(true).open(Path::new(TRACEFS).join(file))?;
    file.write_all(line.as_bytes())
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
