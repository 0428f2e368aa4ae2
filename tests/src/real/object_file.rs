//! What is in an object, or in a library: functions, references to hooks, the size of the text.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use object::{Object, ObjectSection, ObjectSymbol, RelocationTarget, SectionKind, SymbolKind};

/// The names of the functions that it defines; `probe_build`'s own stubs are none.
///
/// # Panics
/// If it can't be read.
#[must_use]
pub fn functions(path: &Path) -> BTreeSet<String> {
    read(path, |file| {
        let defined = file.symbols().filter(|it| it.kind() == SymbolKind::Text && !it.is_undefined());
        let names = defined.map(|it| it.name().expect("a name").to_owned());
        names.filter(|it| !it.starts_with("__probe_stub_")).collect()
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
    read(path, |file| {
        file.sections().filter(|it| it.kind() == SectionKind::Text).map(|it| it.size()).sum()
    })
}

fn read<T>(path: &Path, look: impl FnOnce(&object::File<'_>) -> T) -> T {
    let data = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let file = object::File::parse(&*data).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    look(&file)
}
