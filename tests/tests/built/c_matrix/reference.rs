//! The scenarios' notes without sites: one line each, in a file.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::{env, fs};

use probe_build::Sites;
use probe_tests::c::{Compiler, Language, Notes, Object, Recipe};
use probe_tests::scenario;

use super::{NOTES, OBJECT, play, variables};

/// Builds the sources without sites, and has a child write their notes. Returns the file. Does so
/// once for all tests of this process.
pub(super) fn of(compiler: Compiler, language: Language, root: &str) -> PathBuf {
    static NOTES: [OnceLock<PathBuf>; 4] = [const { OnceLock::new() }; 4];
    let at = 2 * usize::from(compiler == Compiler::Clang) + usize::from(language == Language::Cpp);
    let note = || {
        let (plain, _) = Recipe::new(compiler, language, Sites::None, "-O1").build(root);
        let notes = plain.with_extension("notes");
        scenario::pass("reference", &variables(compiler, language, Sites::None, &plain, &notes));
        notes
    };
    NOTES[at].get_or_init(note).clone()
}

/// The path that a variable holds.
pub(super) fn path(variable: &str) -> PathBuf {
    PathBuf::from(env::var_os(variable).expect("the parent has set it"))
}

/// Plays the scenarios of the named object, and writes their notes.
pub(super) fn write() {
    let (_, language, _) = play::recipe();
    let object = Object::open(&path(OBJECT));
    let first = object.run(language);
    assert!(first.iter().any(|(_, notes)| notes.len() > 20));
    assert_eq!(object.run(language), first, "the same each time");
    let mut text = String::new();
    for (scenario, notes) in first {
        text += &lines(scenario, &notes);
    }
    fs::write(path(NOTES), text).expect("a folder of the test's own");
}

/// Asserts that the scenarios make the same notes as without sites.
pub(super) fn compare(object: &Object, language: Language, reference: &Path, state: &str) {
    let expected = fs::read_to_string(reference).expect("the reference");
    let found: String = object.run(language).iter().map(|(scenario, notes)| lines(scenario, notes)).collect();
    let differences: Vec<_> =
        (expected.lines().zip(found.lines())).filter(|(expected, found)| expected != found).take(8).collect();
    assert!(differences.is_empty(), "{state}: expected, found: {differences:#?}");
    assert_eq!(expected.lines().count(), found.lines().count(), "{state}");
}

fn lines(scenario: &str, notes: &Notes) -> String {
    let mut text = String::new();
    for note in notes {
        writeln!(text, "{scenario} {} {} {:x}", note.line, note.size, note.hash).expect("memory");
    }
    text
}
