//! Stubs, definitions and the note: what a file with sites has at its top and at its end
//! (docs/abi.md).
//!
//! Stub and definition of a probe form one COMDAT group, named by the probe's identity: of the many
//! that several files emit for a function of a header the linker keeps one, and none if no site
//! refers to them.

use super::section::Section;
use core::fmt::Write as _;
use std::collections::HashMap;

/// What an active site's probe means, and how its code is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Convention {
    /// By CALL, every register is kept.
    KeepAll = 1,
    /// By CALL, as any function is called.
    Call = 2,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Entry = 1,
    Exit = 2,
}

/// A probe: two definitions that agree in all of this are one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Identity {
    /// Whose function it is, where other files don't see it: those of two packages may agree in all
    /// else.
    pub package: String,
    pub path: String,
    pub file: String,
    pub line: u32,
    pub kind: Kind,
    pub convention: Convention,
}

/// Text that fits into a definition.
const INLINE_TEXT: usize = 144;

impl Identity {
    /// Column 1 stands for "known", for compilers that know lines only.
    fn column(&self) -> u32 {
        u32::from(self.line > 0)
    }

    /// FNV-1a over all of it: the same in every run, on every machine.
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
    order: Vec<Identity>,
    sites: usize,
    /// The first site of each section.
    anchors: HashMap<Section, usize>,
}

/// What a line with a site begins with.
pub(super) const SITE: &str = "\t__probe_site ";

impl Definitions {
    /// The line that makes a site of a probe, in a section: see [`site_of`](Self::site_of).
    pub(super) fn site(&mut self, identity: &Identity, section: Section, first: bool) -> String {
        let hash = self.probe(identity);
        self.site_of(hash, section, first)
    }

    /// A probe, by its hash.
    pub(super) fn probe(&mut self, identity: &Identity) -> u64 {
        if let Some(hash) = self.hashes.get(identity) {
            return *hash;
        }
        let hash = identity.hash();
        self.hashes.insert(identity.clone(), hash);
        self.order.push(identity.clone());
        hash
    }

    /// The line that makes a site of a probe that is known by its hash. A site that would be the
    /// `first` instruction of a symbol has a NOP ahead of it: tracers put their breakpoints on
    /// first instructions, and write back what the file has there.
    pub(super) fn site_of(&mut self, hash: u64, section: Section, first: bool) -> String {
        let number = self.sites;
        self.sites += 1;
        let anchor = *self.anchors.entry(section).or_insert(number);
        let ahead = if first { ", nop" } else { "" };
        format!("{SITE}{number}, __probe_stub_{hash:016x}, {anchor}{ahead}\n")
    }

    /// Before the compiler's first line; empty without sites.
    pub(super) fn head(&self) -> &'static str {
        if self.sites == 0 { "" } else { HEAD }
    }

    /// After the compiler's last line; empty without sites.
    pub(super) fn foot(&self) -> String {
        let mut text = String::new();
        for identity in &self.order {
            write(identity, self.hashes[identity], &mut text).expect("a String takes all text");
        }
        if self.sites > 0 {
            text.push_str(NOTE);
        }
        text
    }
}

/// The record goes into the group of the site's section (`?`), and is dropped with it (`o`). All
/// records of a section name the section's first site, so that they make one section: assemblers
/// search those of one name from the first to the last.
pub(super) const HEAD: &str = "\
\t.macro __probe_site n, stub, anchor, ahead
\t\\ahead
\t.p2align 3, , 4
.Lprobe_site_\\n: .byte 0x0f, 0x1f, 0x44, 0x00, 0x08
\t.pushsection probe_sites, \"ao?\", @progbits, .Lprobe_site_\\anchor
\t.p2align 2
\t.byte 1, 16, 2, 0
\t.long .Lprobe_site_\\n - ., \\stub - ., \\stub - .
\t.popsection
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

fn write(identity: &Identity, hash: u64, to: &mut String) -> core::fmt::Result {
    let Identity { package: _, path, file, line, kind, convention } = identity;
    let (kind, convention, column) = (*kind as u8, *convention as u16, identity.column());
    let text = format!("{path}{file}");
    let (stub, definition) = (format!("__probe_stub_{hash:016x}"), format!("__probe_definition_{hash:016x}"));
    let fits = text.len() <= INLINE_TEXT;
    let address = if fits { "0".to_owned() } else { format!(".Lprobe_text_{hash:016x}") };
    write!(
        to,
        "\
\t.section .text.unlikely.{stub}, \"axG\", @progbits, {definition}, comdat
\t.weak {stub}
\t.hidden {stub}
\t.type {stub}, @function
{stub}:
\t.cfi_startproc
\tpushq %rdi
\t.cfi_adjust_cfa_offset 8
\t.cfi_rel_offset %rdi, 0
\tleaq {definition}(%rip), %rdi
\tjmp *(%rdi)
\t.cfi_endproc
\t.size {stub}, .-{stub}
\t.section linkme_PROBE_DEFINITIONS_V1, \"awG\", @progbits, {definition}, comdat
\t.p2align 6
\t.weak {definition}
\t.hidden {definition}
\t.type {definition}, @object
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
        path.len(),
        file.len(),
    )?;
    if fits {
        writeln!(to, "\t.ascii \"{}\"", escaped(&text))?;
        writeln!(to, "\t.zero {}", INLINE_TEXT - text.len())
    } else {
        writeln!(to, "\t.zero {INLINE_TEXT}")?;
        writeln!(to, "\t.section .rodata.{stub}, \"aG\", @progbits, {definition}, comdat")?;
        writeln!(to, "{address}:\n\t.ascii \"{}\"", escaped(&text))
    }
}

/// For a string of the assembler's: octal numbers for all but plain characters.
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
