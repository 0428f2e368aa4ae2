//! The output: the assembly file with the additions. Stubs, definitions and the note are at its top
//! and its end (docs/abi.md).
//!
//! Stub and definition of a header's function form one COMDAT group, named by the probe's identity.
//! If several files emit the group, the linker keeps one copy. It keeps none if no site refers to
//! it. The main file's functions that lie in one section, with which they stay or go, have their
//! stubs in one section and their definitions in another: assemblers and linkers take time and
//! memory for each section.
//!
//! GNU as searches the sections of one name from the first to the last. So each has a name of its
//! own here, and the object gets the common one: see [`section_names`](crate::section_names).

use super::line::Line;
use super::section::Section;
use crate::section_names::UNIQUE;
use core::fmt::Write as _;
use std::collections::{BTreeMap, HashMap};

/// The calling convention of an active site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Convention {
    /// Called by CALL; every register is kept.
    KeepAll = 1,
    /// Called by CALL, like any function.
    Call = 2,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Entry = 1,
    Exit = 2,
}

/// The identity of a probe: definitions that agree in all fields are one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Identity {
    /// The package of a function that other files don't see: without it, the functions of two
    /// packages could be equal.
    pub package: String,
    pub path: String,
    pub file: String,
    pub line: u32,
    pub kind: Kind,
    pub convention: Convention,
}

/// Bytes of text that fit into a definition.
const INLINE_TEXT: usize = 144;

impl Identity {
    /// Returns column 1 if the line is known, since these compilers know lines only.
    fn column(&self) -> u32 {
        u32::from(self.line > 0)
    }

    /// Computes FNV-1a over all fields: the same in every run, on every machine.
    fn hash(&self) -> u64 {
        let numbers = [self.line, self.column(), self.kind as u32, self.convention as u32];
        let text =
            [self.path.as_bytes(), &[0], self.file.as_bytes(), &[0], self.package.as_bytes(), &[0]].concat();
        let bytes = text.into_iter().chain(numbers.into_iter().flat_map(u32::to_le_bytes));
        bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        })
    }
}

/// The sites of a file, and their probes.
#[derive(Default)]
pub(super) struct Definitions {
    hashes: HashMap<Identity, u64>,
    /// Probes with a COMDAT group each.
    grouped: Vec<Identity>,
    /// Probes of the functions of a section.
    pooled: BTreeMap<Section, Vec<Identity>>,
    sites: usize,
    /// The first site of each section.
    anchors: HashMap<Section, usize>,
}

/// The beginning of a line with a site.
pub(super) const SITE: &str = "\t__probe_site ";

impl Definitions {
    /// Returns the line that makes a site of a probe, in a section: see [`site_of`](Self::site_of).
    pub(super) fn site(
        &mut self,
        identity: &Identity,
        pool: Option<Section>,
        section: Section,
        first: bool,
    ) -> String {
        let hash = self.probe(identity, pool);
        self.site_of(hash, section, first)
    }

    /// Adds a probe if it is new, and returns its hash. The pool is the section with whose other
    /// probes it goes; without one, it has a COMDAT group of its own.
    pub(super) fn probe(&mut self, identity: &Identity, pool: Option<Section>) -> u64 {
        if let Some(hash) = self.hashes.get(identity) {
            return *hash;
        }
        let hash = identity.hash();
        self.hashes.insert(identity.clone(), hash);
        let probes = pool.map_or(&mut self.grouped, |section| self.pooled.entry(section).or_default());
        probes.push(identity.clone());
        hash
    }

    /// Returns the line that makes a site of a probe with a known hash. A site that would be the
    /// `first` instruction of a symbol has a NOP ahead of it: tracers put their breakpoints on
    /// first instructions, and write back the file's bytes.
    pub(super) fn site_of(&mut self, hash: u64, section: Section, first: bool) -> String {
        let number = self.sites;
        self.sites += 1;
        let anchor = *self.anchors.entry(section).or_insert(number);
        let ahead = if first { ", nop" } else { "" };
        format!("{SITE}{number}, __probe_stub_{hash:016x}, {anchor}{ahead}\n")
    }

    /// Returns the text before the compiler's first line; empty without sites.
    pub(super) fn head(&self) -> &'static str {
        if self.sites == 0 { "" } else { HEAD }
    }

    /// Returns the text after the compiler's last line; empty without sites.
    pub(super) fn foot(&self) -> String {
        let mut text = String::new();
        let pools = self.pooled.values().map(|probes| (&probes[..], false));
        for (probes, is_group) in pools.chain(self.grouped.chunks(1).map(|probe| (probe, true))) {
            let probes: Vec<_> = probes.iter().map(|probe| (probe, self.hashes[probe])).collect();
            write(&probes, is_group, &mut text).expect("a String takes all text");
        }
        if self.sites > 0 {
            text.push_str(NOTE);
        }
        text
    }
}

/// The record goes into the group of the site's section (`?`), and is dropped with it (`o`). All
/// records of a section name the section's first site, so that they make one section.
///
/// At that site, a relocation that writes nothing makes the section unlike others. Linkers that
/// fold identical functions (`--icf`) compare it. Folded functions would share their sites, and
/// calls of one would count as the other's.
pub(super) const HEAD: &str = "\
\t.macro __probe_site n, stub, anchor, ahead
\t\\ahead
\t.p2align 3, , 4
.Lprobe_site_\\n: .byte 0x0f, 0x1f, 0x44, 0x00, 0x08
\t.pushsection probe_sites.probe\\anchor, \"ao?\", @progbits, .Lprobe_site_\\anchor
\t.p2align 2
\t.byte 1, 16, 2, 0
\t.long .Lprobe_site_\\n - ., \\stub - ., \\stub - .
\t.popsection
\t.ifeq \\n - \\anchor
\t.reloc ., R_X86_64_NONE, \\stub
\t.endif
\t.endm
";

const NOTE: &str = "\
\t.weak __start_probe_sites, __stop_probe_sites
\t.hidden __start_probe_sites, __stop_probe_sites
\t.weak __start_linkme_PROBE_DEFINITIONS_V1, __stop_linkme_PROBE_DEFINITIONS_V1
\t.hidden __start_linkme_PROBE_DEFINITIONS_V1, __stop_linkme_PROBE_DEFINITIONS_V1
\t.section .note.latent_probe, \"a\", @note
\t.p2align 2
\t.long 12, 32, 1
\t.asciz \"LatentProbe\"
\t.quad __start_probe_sites - ., __stop_probe_sites - .
\t.quad __start_linkme_PROBE_DEFINITIONS_V1 - ., __stop_linkme_PROBE_DEFINITIONS_V1 - .
";

/// Writes the stubs and the definitions of probes, those of a COMDAT group or those of a pool.
fn write(probes: &[(&Identity, u64)], is_group: bool, to: &mut String) -> core::fmt::Result {
    let Some((_, first)) = probes.first() else { return Ok(()) };
    let name = format!("{first:016x}");
    let group = if is_group { format!(", __probe_definition_{name}, comdat") } else { String::new() };
    let flag = if is_group { "G" } else { "" };
    let scope = |symbol: &str| {
        if is_group { format!("\t.weak {symbol}\n\t.hidden {symbol}\n") } else { String::new() }
    };
    writeln!(to, "\t.section .text.unlikely.__probe_stub_{name}, \"ax{flag}\", @progbits{group}")?;
    for (_, hash) in probes {
        let (stub, definition) = (format!("__probe_stub_{hash:016x}"), definition(*hash));
        write!(
            to,
            "\
{}\t.type {stub}, @function
{stub}:
\t.cfi_startproc
\tpushq %rdi
\t.cfi_adjust_cfa_offset 8
\t.cfi_rel_offset %rdi, 0
\tleaq {definition}(%rip), %rdi
\tjmp *(%rdi)
\t.cfi_endproc
\t.size {stub}, .-{stub}
",
            scope(&stub)
        )?;
    }
    writeln!(
        to,
        "\t.section linkme_PROBE_DEFINITIONS_V1{UNIQUE}{name}, \"aw{flag}\", @progbits{group}\n\t.p2align 6"
    )?;
    let mut long = String::new();
    for (identity, hash) in probes {
        let Identity { package: _, path, file, line, kind, convention } = identity;
        let (kind, convention, column) = (*kind as u8, *convention as u16, identity.column());
        let text = escaped(&format!("{path}{file}"));
        let length = path.len() + file.len();
        let definition = definition(*hash);
        let fits = length <= INLINE_TEXT;
        let address = if fits { "0".to_owned() } else { format!(".Lprobe_text_{hash:016x}") };
        write!(
            to,
            "\
{}\t.type {definition}, @object
\t.size {definition}, 192
{definition}:
\t.quad 0, 0
\t.short 1, 192
\t.byte {kind}, 0
\t.short {convention}
\t.long {line}, {column}
\t.short {}, {}, 0, 0
\t.quad {address}
",
            scope(&definition),
            path.len(),
            file.len(),
        )?;
        if fits {
            // Of `.zero 0`, GNU as warns.
            writeln!(to, "\t.ascii \"{text}\"\n\t.fill {}", INLINE_TEXT - length)?;
        } else {
            writeln!(to, "\t.zero {INLINE_TEXT}")?;
            write!(long, "{address}:\n\t.ascii \"{text}\"\n")?;
        }
    }
    if !long.is_empty() {
        write!(to, "\t.section .rodata.__probe_stub_{name}, \"a{flag}\", @progbits{group}\n{long}")?;
    }
    Ok(())
}

fn definition(hash: u64) -> String {
    format!("__probe_definition_{hash:016x}")
}

/// Escapes a string for the assembler: octal numbers for all but plain characters.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b' '..=b'~' if byte != b'"' && byte != b'\\' => escaped.push(char::from(byte)),
            _ => write!(escaped, "\\{byte:03o}").expect("a String takes all text"),
        }
    }
    escaped
}

/// Changes to lines, applied all at once. The compiler's lines stay byte for byte as they are,
/// except for removed or replaced ones. The cost depends on the changes only.
#[derive(Default)]
pub(super) struct Edits {
    before: BTreeMap<usize, String>,
    instead: BTreeMap<usize, String>,
    /// A bit for each line.
    removed: Vec<u64>,
}

impl Edits {
    pub(super) fn new(lines: usize) -> Self {
        Self { removed: vec![0; lines.div_ceil(64)], ..Self::default() }
    }

    /// Adds whole lines before a line, or after the last one, behind earlier additions.
    pub(super) fn before(&mut self, line: usize, text: &str) {
        self.before.entry(line).or_default().push_str(text);
    }

    pub(super) fn remove(&mut self, line: usize) {
        self.instead.remove(&line);
        self.removed[line / 64] |= 1 << (line % 64);
    }

    pub(super) fn replace(&mut self, line: usize, text: String) {
        self.instead.insert(line, text);
    }

    fn is_removed(&self, line: usize) -> bool {
        self.removed[line / 64] & (1 << (line % 64)) != 0
    }

    /// Returns the text, between a head and a foot.
    pub(super) fn apply(&self, lines: &[Line<'_>], head: &str, foot: &str) -> String {
        let added = |texts: &BTreeMap<usize, String>| texts.values().map(String::len).sum::<usize>();
        let kept: usize = lines
            .iter()
            .enumerate()
            .filter(|(at, _)| !self.is_removed(*at))
            .map(|(_, line)| line.text.len())
            .sum();
        let length = kept + added(&self.before) + added(&self.instead) + head.len() + foot.len() + 1;
        let mut text = String::with_capacity(length);
        text.push_str(head);
        let (mut before, mut instead) = (self.before.iter().peekable(), self.instead.iter().peekable());
        for (at, line) in lines.iter().enumerate() {
            if let Some((_, added)) = before.next_if(|(line, _)| **line == at) {
                text.push_str(added);
            }
            match instead.next_if(|(line, _)| **line == at) {
                Some((_, other)) => text.push_str(other),
                None if self.is_removed(at) => {}
                None => text.push_str(line.text),
            }
        }
        // A line before which something is added ends, even if it is the last one.
        let last = self.before.get(&lines.len()).map_or("", String::as_str);
        let more = !last.is_empty() || !foot.is_empty();
        if more && !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(last);
        text.push_str(foot);
        text
    }
}
