//! Functions for patching, and the expected bytes of their code at the end.

use std::fmt;
use std::ops::Range;

use probe_runtime::patch::Bytes;

use super::code::{Boundary, Function, Piece, Text};
use super::forms::Form;
use super::tally::Tally;

/// Sealed code, and its expected bytes.
pub struct Arena {
    text: Text,
    pub functions: Vec<Function>,
    image: Vec<u8>,
}

/// One instruction under test that has a form.
#[derive(Clone, Copy)]
pub struct Site {
    /// The number of its function.
    pub function: usize,
    pub addr: usize,
    pub form: Form,
    /// The number of bytes before the boundary.
    pub split: usize,
    pub boundary: Boundary,
}

impl Site {
    /// Returns whether the instruction lies across two words.
    pub fn is_straddler(&self) -> bool {
        self.boundary != Boundary::None
    }

    /// Returns the old instruction, or the new one.
    pub fn bytes(&self, is_new: bool) -> Bytes {
        if is_new { self.form.new } else { self.form.old }
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (len, split, boundary) = (self.form.old.len(), self.split, self.boundary);
        write!(f, "{split}|{} at {boundary:?}, {:#x}", len - split, self.addr)
    }
}

impl Arena {
    /// Lets `emit` fill new memory with functions, and seals it.
    pub fn new(len: usize, emit: impl FnOnce(&mut Text) -> Vec<Function>) -> Self {
        let mut text = Text::new(len);
        let functions = emit(&mut text);
        text.seal();
        let image = text.bytes().to_vec();
        Self { text, functions, image }
    }

    /// Returns the arena's addresses.
    pub fn range(&self) -> Range<usize> {
        self.text.range()
    }

    /// Returns bytes of the code. No thread may patch them meanwhile.
    pub fn bytes(&self, addr: usize, len: usize) -> &[u8] {
        let at = addr - self.range().start;
        &self.text.bytes()[at..at + len]
    }

    /// Sets the expected bytes of an instruction at the end.
    pub fn expect(&mut self, addr: usize, bytes: &[u8]) {
        let at = addr - self.range().start;
        self.image[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// Checks that all code is as expected, with the bytes between instructions unchanged.
    pub fn assert_as_expected(&self) {
        let start = self.range().start;
        for (at, (found, expected)) in self.text.bytes().iter().zip(&self.image).enumerate() {
            assert_eq!(found, expected, "at {:#x}", start + at);
        }
    }

    /// Executes a function once, alone; returns its tally.
    pub fn execute(&self, function: usize) -> Tally {
        let tally = Tally::default();
        self.functions[function].run(1, &tally);
        tally
    }
}

/// Returns all splits of all lengths, at all boundaries, and all lengths without a split.
pub fn straddlers_and_aligned() -> impl Iterator<Item = (Form, usize, Boundary)> {
    let straddlers = (2..=8).flat_map(|len| {
        (1..len).flat_map(move |split| Boundary::ALL.map(|boundary| (Form::of_len(len), split, boundary)))
    });
    straddlers.chain((1..=8).map(|len| (Form::of_len(len), 0, Boundary::None)))
}

/// Creates an arena with `copies` copies of each of these, and returns it with its sites.
pub fn of_forms(copies: usize) -> (Arena, Vec<Site>) {
    let mut sites = Vec::new();
    let arena = Arena::new(copies * (4 << 10) * 110, |text| {
        let all = (0..copies).flat_map(|_| straddlers_and_aligned());
        all.enumerate()
            .map(|(number, (form, split, boundary))| {
                let function = text.function(&[Piece::Word(form)], 0, split, boundary);
                sites.push(Site { function: number, addr: function.pieces[0], form, split, boundary });
                function
            })
            .collect()
    });
    (arena, sites)
}
