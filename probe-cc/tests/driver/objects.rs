//! The contents of objects and programs.

use std::collections::BTreeMap;

use object::read::elf::ElfFile64;
use object::{Object as _, ObjectSection as _, SectionKind};

fn parsed(bytes: &[u8]) -> ElfFile64<'_> {
    ElfFile64::parse(bytes).expect("an ELF file")
}

/// Returns the number of sites of a file; 0 for one that is no ELF file of 64 bits.
pub fn sites(bytes: &[u8]) -> usize {
    if !bytes.starts_with(b"\x7fELF\x02") {
        return 0;
    }
    let file = parsed(bytes);
    let records = file.sections().filter(|section| section.name() == Ok("probe_sites"));
    records.map(|section| section.data().expect("data").len() / 16).sum()
}

/// Returns the bytes of all sections with code, by their names, and the names of all sections.
pub fn code(bytes: &[u8]) -> (BTreeMap<String, Vec<u8>>, Vec<String>) {
    let file = parsed(bytes);
    let mut code = BTreeMap::new();
    for section in file.sections().filter(|section| section.kind() == SectionKind::Text) {
        code.insert(section.name().unwrap().to_owned(), section.data().unwrap().to_vec());
    }
    (code, file.sections().map(|section| section.name().unwrap().to_owned()).collect())
}
