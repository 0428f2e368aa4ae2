//! The contents of an object file or a program.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use object::read::elf::{ElfFile64, FileHeader as _};
use object::{Object as _, ObjectSection as _, ObjectSymbol, SymbolKind};

/// An ELF file in memory.
pub(crate) struct Elf {
    bytes: Vec<u8>,
}

impl Elf {
    pub(crate) fn read(path: &Path) -> Self {
        Self { bytes: fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())) }
    }

    fn file(&self) -> ElfFile64<'_> {
        let file = ElfFile64::parse(&*self.bytes).expect("an ELF file");
        assert!(file.elf_header().is_type_64());
        file
    }

    /// Returns the bytes of all sections of this name, one after the other.
    pub(crate) fn section(&self, name: &str) -> Vec<u8> {
        let file = self.file();
        let all = file.sections().filter(|section| section.name() == Ok(name));
        all.flat_map(|section| section.data().expect("data").to_vec()).collect()
    }

    /// Returns the names of all sections.
    pub(crate) fn sections(&self) -> BTreeSet<String> {
        self.file().sections().map(|section| section.name().expect("a name").to_owned()).collect()
    }

    /// Returns the number of records of sites.
    pub(crate) fn records(&self) -> usize {
        let records = self.section("probe_sites");
        assert_eq!(records.len() % 16, 0);
        for record in records.chunks_exact(16) {
            assert_eq!(record[..4], [1, 16, 2, 0]);
        }
        records.len() / 16
    }

    /// Returns the number of sites' NOPs in the code.
    pub(crate) fn nops(&self) -> usize {
        let file = self.file();
        let code = file.sections().filter(|section| section.kind() == object::SectionKind::Text);
        code.map(|section| {
            let data = section.data().expect("data");
            data.windows(5).filter(|bytes| *bytes == [0x0f, 0x1f, 0x44, 0x00, 0x08]).count()
        })
        .sum()
    }

    /// Returns the symbols of each defined function, without the stubs of probes and the cold parts
    /// of functions.
    pub(crate) fn functions(&self) -> Vec<BTreeSet<String>> {
        let mut functions = BTreeMap::<_, BTreeSet<String>>::new();
        for symbol in self.file().symbols().filter(|symbol| symbol.kind() == SymbolKind::Text) {
            let name = symbol.name().expect("a name");
            if symbol.is_definition() && !name.starts_with("__probe_stub_") && !name.contains(".cold") {
                let place = (symbol.section_index().map(|index| index.0), symbol.address());
                functions.entry(place).or_default().insert(name.to_owned());
            }
        }
        functions.into_values().collect()
    }

    /// Returns the undefined symbols.
    pub(crate) fn undefined(&self) -> BTreeSet<String> {
        let file = self.file();
        let undefined = file.symbols().filter(ObjectSymbol::is_undefined);
        undefined
            .map(|symbol| symbol.name().expect("a name").to_owned())
            .filter(|name| !name.is_empty())
            .collect()
    }
}
