//! Reads an object or a library: functions, references to hooks, the size of the text.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use object::{Object, ObjectSection, ObjectSymbol, RelocationTarget, SectionKind, SymbolKind};

/// The functions that it defines, each with all of its names; not `probe_build`'s own stubs.
///
/// # Panics
/// If it can't be read.
#[must_use]
pub fn functions(path: &Path) -> Vec<BTreeSet<String>> {
    read(path, |file| {
        let mut functions: BTreeMap<_, BTreeSet<String>> = BTreeMap::new();
        for symbol in file.symbols().filter(|it| it.kind() == SymbolKind::Text && !it.is_undefined()) {
            let name = symbol.name().expect("a name");
            if !name.starts_with("__probe_stub_") {
                let place = (symbol.section_index().map(|it| it.0), symbol.address());
                functions.entry(place).or_default().insert(name.to_owned());
            }
        }
        functions.into_values().collect()
    })
}

/// How many relocations refer to a hook of `-finstrument-functions`.
///
/// # Panics
/// If it can't be read.
#[must_use]
pub fn hook_references(path: &Path) -> usize {
    read(path, |file| {
        let relocations = file.sections().flat_map(|section| section.relocations().collect::<Vec<_>>());
        let is_hook = |target| match target {
            RelocationTarget::Symbol(index) => {
                let name = file.symbol_by_index(index).and_then(|it| it.name().map(str::to_owned));
                name.expect("a name").starts_with("__cyg_profile_func_")
            }
            _ => false,
        };
        relocations.filter(|(_, relocation)| is_hook(relocation.target())).count()
    })
}

/// How many bytes of code it has.
///
/// # Panics
/// If it can't be read.
#[must_use]
pub fn text_size(path: &Path) -> u64 {
    read(path, |file| file.sections().filter(|it| it.kind() == SectionKind::Text).map(|it| it.size()).sum())
}

fn read<T>(path: &Path, extract: impl FnOnce(&object::File<'_>) -> T) -> T {
    let data = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let file = object::File::parse(&*data).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    extract(&file)
}
