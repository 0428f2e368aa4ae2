//! Debug information of any bytes ends no process, and takes no time without end.

use object::{Object, ObjectSection, ObjectSymbol};
use probe_hooks::signatures::{Position, Site, signatures};
use proptest::prelude::*;

use super::compiled::compiled;

/// The sections that are damaged.
const SECTIONS: [&str; 6] =
    [".debug_info", ".debug_abbrev", ".debug_loclists", ".debug_line", ".debug_str", ".symtab"];

#[test]
fn damage_is_no_panic() {
    let file = compiled("gcc", &["-O2"]);
    let object = object::File::parse(&*file).unwrap();
    let sites: Vec<_> = object
        .symbols()
        .filter(ObjectSymbol::is_definition)
        .zip([Position::Entry, Position::Exit, Position::Hook].into_iter().cycle())
        .map(|(symbol, position)| Site { addr: symbol.address(), position })
        .collect();
    assert!(signatures(&file, &sites).iter().flatten().count() > 15);
    let ranges = SECTIONS.map(|name| object.section_by_name(name).unwrap().file_range().unwrap());
    let change = (0..SECTIONS.len(), any::<prop::sample::Index>(), any::<u8>());
    let mut runner = proptest::test_runner::TestRunner::default();
    let changes = prop::collection::vec(change, 1..12);
    runner
        .run(&changes, |changes| {
            let mut file = file.clone();
            for (section, at, value) in changes {
                let (start, len) = ranges[section];
                let at = start + at.index(usize::try_from(len).unwrap()) as u64;
                file[usize::try_from(at).unwrap()] = value;
            }
            let found = signatures(&file, &sites);
            prop_assert_eq!(found.len(), sites.len());
            Ok(())
        })
        .unwrap();
}
