//! A copy of a crate, patched or as it is.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Crate, Places, Tally, manifest, patched};
use crate::{nested, sources};

/// Further tables of a copy's manifest: a dependency on a folder.
#[derive(Clone, Copy, Debug)]
pub struct Dependency<'a> {
    /// `dependencies` or `dev-dependencies`.
    pub kind: &'a str,
    /// The name in code, with `-` for `_`.
    pub name: &'a str,
    /// The package, which may be another that stands in for it.
    pub package: &'a str,
    /// Its folder.
    pub folder: &'a Path,
}

/// A copy, ready for cargo.
#[derive(Clone, Debug)]
pub struct Copy {
    /// The folder.
    pub folder: PathBuf,
    /// The outcome for its functions.
    pub tally: Tally,
}

/// Goes before each function or block.
const ATTRIBUTE: &str = "#[::probe_runtime::probe]";

impl Copy {
    /// Copies the crate as it is, without the dependencies that no built target uses.
    ///
    /// # Panics
    /// If its sources can't be had or copied.
    #[must_use]
    pub fn plain(it: &Crate, folder: &Path) -> Self {
        Self::new(it, folder, None, &[], "")
    }

    /// Copies the crate, with the attribute on every function or block and with these dependencies.
    /// `line` goes before the first item of the library (its own attributes stay first) and of each
    /// test.
    ///
    /// # Panics
    /// If its sources can't be had or copied, or are no Rust.
    #[must_use]
    pub fn patched(
        it: &Crate,
        folder: &Path,
        places: Places,
        dependencies: &[Dependency<'_>],
        line: &str,
    ) -> Self {
        Self::new(it, folder, Some(places), dependencies, line)
    }

    fn new(it: &Crate, folder: &Path, places: Option<Places>, more: &[Dependency<'_>], line: &str) -> Self {
        let from = sources::folder_of(it.name);
        let mut copy = Self { folder: folder.to_owned(), tally: Tally::default() };
        for file in files(&from) {
            let name = file.strip_prefix(&from).expect("it is in there");
            let is_rust = name.extension().is_some_and(|it| it == "rs");
            let is_root = name == Path::new("src/lib.rs") || name.parent() == Some(Path::new("tests"));
            if name == Path::new("Cargo.toml") {
                let manifest = fs::read_to_string(&file).expect("a manifest");
                write(&folder.join(name), manifest::edited(&manifest, it, more).as_bytes());
            } else if name.starts_with("src") && is_rust {
                let mut text = fs::read_to_string(&file).expect("a source");
                if let Some(places) = places {
                    let (new, tally) = patched(&text, ATTRIBUTE, places)
                        .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
                    copy.tally += tally;
                    text = new;
                }
                let text = if is_root { with_line(&text, line) } else { text };
                write(&folder.join(name), text.as_bytes());
            } else if is_root && is_rust {
                write(
                    &folder.join(name),
                    with_line(&fs::read_to_string(&file).expect("a test"), line).as_bytes(),
                );
            } else if !name.starts_with("Cargo.lock") {
                write(&folder.join(name), &fs::read(&file).expect("a file"));
            }
        }
        nested::lend_lock_file(folder);
        copy
    }
}

/// All files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.expect("an entry").path();
        if path.is_dir() { files.extend(self::files(&path)) } else { files.push(path) }
    }
    files.sort();
    files
}

/// Writes changed files only, so that cargo builds these only.
fn write(path: &Path, bytes: &[u8]) {
    if fs::read(path).is_ok_and(|old| old == bytes) {
        return;
    }
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder can be made");
    fs::write(path, bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

/// `line` after the attributes and comments that stand at the top of a file.
fn with_line(text: &str, line: &str) -> String {
    if line.is_empty() {
        return text.to_owned();
    }
    let file = syn::parse_file(text).expect("it has been parsed before, or is a test");
    let at = file.items.first().map_or(text.len(), |item| {
        let first = quote::ToTokens::to_token_stream(item).into_iter().next().expect("an item has tokens");
        first.span().byte_range().start
    });
    format!("{}{line} {}", &text[..at], &text[at..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_comes_after_the_attributes_of_the_file() {
        assert_eq!(
            with_line("//! D.\n#![no_std]\n// C.\n#[x]\nmod a;\n", "use b;"),
            "//! D.\n#![no_std]\n// C.\nuse b; #[x]\nmod a;\n"
        );
    }
}
