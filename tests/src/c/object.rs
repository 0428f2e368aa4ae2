//! A loaded shared object of `tests/c`: its scenarios, their notes, and its functions' counters.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_void};
use std::path::{Path, PathBuf};

use probe_build::Sites;
use probe_runtime::Kind;
use probe_runtime::count::Counts;

use super::{Compiler, Language};
use crate::library::Library;

/// As `struct counter` in `tests/c/torture.h`.
#[repr(C, align(64))]
struct RawCounter {
    path: *const c_char,
    file: *const c_char,
    numbers: [u64; 4],
    padding: [u64; 2],
}

/// The calls that a function has counted itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counter {
    /// Its calls.
    pub entries: u64,
    /// Those left by a jump, or for good.
    pub jumped: u64,
    /// Those left by an exception.
    pub unwound: u64,
    /// The relation to the hits of its probes.
    pub tally: Tally,
}

/// The relation between a function's own counter and the hits of its probe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tally {
    /// Both are equal.
    Exact,
    /// Both are equal if the function has sites.
    IfPlaced,
    /// An exit may precede an exception, which a function called in tail position throws.
    Tail,
    /// The function is a constructor or destructor: one body may call another of the same name.
    Structor,
}

/// Path of a probe and name of its file.
pub type Function = (String, String);

/// One note of a scenario; as `struct entry` in `tests/c/support.c`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Note {
    /// The line that made the note.
    pub line: u32,
    /// The number of noted bytes.
    pub size: u32,
    /// The hash of the noted bytes.
    pub hash: u64,
}

/// All notes of a scenario.
pub type Notes = Vec<Note>;

/// A loaded object.
pub struct Object {
    /// Its library.
    pub library: Library,
    /// Its file.
    pub path: PathBuf,
}

impl Object {
    /// Loads it.
    ///
    /// # Panics
    /// If it can't be loaded.
    #[must_use]
    pub fn open(path: &Path) -> Self {
        Self { library: Library::open(path), path: path.to_owned() }
    }

    /// Plays all scenarios, and returns their names and notes.
    #[must_use]
    pub fn run(&self, language: Language) -> Vec<(&'static str, Notes)> {
        language.scenarios().iter().map(|&scenario| (scenario, self.notes(scenario))).collect()
    }

    /// Plays one scenario on this thread.
    ///
    /// # Panics
    /// If the object has no such scenario.
    #[must_use]
    pub fn notes(&self, scenario: &str) -> Notes {
        type Play = extern "C" fn(*mut c_void, *mut u64) -> *const Note;
        let play = self.library.symbol("torture_notes");
        // SAFETY: its type in tests/c/support.c.
        let play: Play = unsafe { std::mem::transmute(play) };
        let mut count = 0_u64;
        let notes = play(self.library.symbol(scenario), &raw mut count);
        if count == 0 {
            return Notes::new();
        }
        // SAFETY: `count` notes, written by this thread, which does not write more meanwhile.
        let notes = unsafe { std::slice::from_raw_parts(notes, usize::try_from(count).expect("a length")) };
        notes.to_vec()
    }

    /// Returns the counter of each function.
    ///
    /// # Panics
    /// If two functions have the same name and file.
    #[must_use]
    pub fn counters(&self) -> BTreeMap<Function, Counter> {
        // SAFETY: its type in tests/c/support.c.
        let get: extern "C" fn(*mut u64) -> *const RawCounter =
            unsafe { std::mem::transmute(self.library.symbol("torture_counters")) };
        let mut count = 0;
        let counters = get(&raw mut count);
        let mut all = BTreeMap::new();
        for at in 0..usize::try_from(count).expect("a length") {
            // SAFETY: one of `count` counters, which live as long as the object; other threads
            // count atomically.
            let counter = unsafe { counters.add(at).read_volatile() };
            // SAFETY: strings of the object.
            let text = |text| unsafe { CStr::from_ptr(text) }.to_str().expect("UTF-8").to_owned();
            let [entries, jumped, unwound, kind] = counter.numbers;
            let tally = [Tally::Exact, Tally::IfPlaced, Tally::Tail, Tally::Structor]
                [usize::try_from(kind).expect("a kind")];
            let function = (text(counter.path), file_name(&text(counter.file)));
            let known = all.insert(function.clone(), Counter { entries, jumped, unwound, tally });
            assert_eq!(known, None, "two of {function:?}");
        }
        all
    }
}

impl Counter {
    /// Returns the calls counted since `before`.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            entries: self.entries - before.entries,
            jumped: self.jumped - before.jumped,
            unwound: self.unwound - before.unwound,
            tally: self.tally,
        }
    }

    /// Returns how often the function passed its exit. Exceptions also call a hook of gcc's.
    #[must_use]
    pub fn exits(self, compiler: Compiler, sites: Sites) -> u64 {
        let hook_sees_exceptions = compiler == Compiler::Gcc && sites == Sites::InstrumentFunctions;
        self.entries - self.jumped - if hook_sees_exceptions { 0 } else { self.unwound }
    }
}

fn file_name(path: &str) -> String {
    path.rsplit('/').next().expect("a name").to_owned()
}

/// Returns the hits of each function's entry and exit, by path and file; `None` without a probe.
///
/// # Panics
/// If a probe is neither.
#[must_use]
pub fn hits_by_function(counts: &Counts) -> BTreeMap<Function, [Option<u64>; 2]> {
    let mut all = BTreeMap::new();
    for count in counts {
        let function = (count.probe.path().to_owned(), file_name(count.probe.file()));
        let hits: &mut [Option<u64>; 2] = all.entry(function).or_default();
        let hits = match count.probe.kind() {
            Kind::Entry => &mut hits[0],
            Kind::Exit => &mut hits[1],
            kind => panic!("a probe of kind {kind} in C code: {}", count.probe),
        };
        *hits = Some(hits.unwrap_or(0) + count.hits);
    }
    all
}
