//! The contents of objects and programs.

use std::collections::BTreeMap;

use object::read::elf::ElfFile64;
use object::{Object as _, ObjectSection as _, ObjectSymbol as _, RelocationTarget, SectionKind};

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

/// Returns the names of all sections.
pub fn names(bytes: &[u8]) -> Vec<String> {
    parsed(bytes).sections().map(|section| section.name().unwrap().to_owned()).collect()
}

/// Returns the bytes and the relocations of all sections with code, by their names.
pub fn code(bytes: &[u8]) -> BTreeMap<String, (Vec<u8>, Vec<String>)> {
    let file = parsed(bytes);
    let mut code = BTreeMap::new();
    for section in file.sections().filter(|section| section.kind() == SectionKind::Text) {
        let relocations = section.relocations().map(|(at, it)| {
            format!("{at:#x} {:?} {} {:#x}", it.flags(), target(&file, it.target()), it.addend())
        });
        let contents = (section.data().unwrap().to_vec(), relocations.collect());
        assert_eq!(code.insert(section.name().unwrap().to_owned(), contents), None);
    }
    code
}

/// Returns the name of a relocation's symbol, or of the section that it stands for.
fn target(file: &ElfFile64<'_>, target: RelocationTarget) -> String {
    let RelocationTarget::Symbol(symbol) = target else { panic!("{target:?}") };
    let symbol = file.symbol_by_index(symbol).unwrap();
    match symbol.name().unwrap() {
        "" => file.section_by_index(symbol.section_index().unwrap()).unwrap().name().unwrap().to_owned(),
        name => name.to_owned(),
    }
}
