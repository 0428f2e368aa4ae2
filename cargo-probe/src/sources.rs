//! The files of a crate: its root, the files of its modules, as rustc looks for them, and those
//! that it includes.
//!
//! The Rust Reference, "Module source filenames", has the rules. A module under `cfg_attr(…, path)`
//! may have several files. Modules that only a macro declares are found where they stand in its
//! arguments; others are not, and their files stay as they are.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::{env, fs};

use probe_expand::{Found, FoundFunction, FoundInclude, FoundModule};

use crate::insert::{self, Insertion, Lines};

/// A file of a crate.
pub struct Source {
    /// Its path, beginning as that of the root.
    pub path: PathBuf,
    /// Its text.
    pub text: String,
    /// Its lines.
    pub lines: Lines,
    /// The modules around it, without the crate.
    pub modules: Vec<String>,
    /// Its functions and modules, or why it can't be read as Rust.
    pub found: Result<Found, String>,
}

impl Source {
    /// Returns the insertion that probes one of its functions; see [`insert::probe`].
    pub fn probe(&self, function: &FoundFunction, by_attribute: bool) -> Option<Insertion> {
        insert::probe(&self.text, &self.lines, function, by_attribute)
    }

    /// Returns the files that it includes from the package's folder, each with the place where the
    /// text names that folder.
    pub fn in_package(&self) -> impl Iterator<Item = (usize, PathBuf)> {
        let includes = self.found.iter().flat_map(|found| &found.includes);
        includes.filter_map(|include| Some((include.in_package?, package_file(&include.path)?)))
    }
}

/// Returns a file of the package that is compiled, by its name behind the package's folder.
fn package_file(name: &str) -> Option<PathBuf> {
    let mut folder = env::var_os("CARGO_MANIFEST_DIR")?;
    folder.push(name);
    Some(folder.into())
}

/// Reads the files of a crate. Files that are not there belong to modules of other configurations.
pub fn read(root: &Path) -> Vec<Source> {
    let mut sources = Vec::new();
    let mut seen = HashSet::new();
    let mut open = vec![File { path: root.to_owned(), modules: Vec::new(), owns_folder: true }];
    while let Some(file) = open.pop() {
        if !seen.insert(file.path.clone()) {
            continue;
        }
        let Ok(text) = fs::read_to_string(&file.path) else { continue };
        let found = probe_expand::find(&text).map_err(|error| error.to_string());
        if let Ok(found) = &found {
            open.extend(found.modules.iter().flat_map(|module| file.files_of(module)));
            open.extend(found.includes.iter().filter_map(|include| file.included(include)));
        }
        sources.push(Source { path: file.path, lines: Lines::of(&text), text, modules: file.modules, found });
    }
    sources
}

struct File {
    path: PathBuf,
    modules: Vec<String>,
    /// Whether modules inside are searched in the folder of this file: a root, a `mod.rs`, a file
    /// named by `#[path]`.
    owns_folder: bool,
}

impl File {
    /// Modules inside an included file are searched in its folder.
    fn included(&self, include: &FoundInclude) -> Option<Self> {
        let folder = self.path.parent().unwrap_or(Path::new(""));
        let modules = self.modules.iter().chain(&include.modules).cloned().collect();
        let path = match include.in_package {
            Some(_) => package_file(&include.path)?,
            None => folder.join(&include.path),
        };
        Some(Self { path, modules, owns_folder: true })
    }

    fn files_of(&self, module: &FoundModule) -> Vec<Self> {
        let folder = self.path.parent().unwrap_or(Path::new(""));
        let mut inside = if self.owns_folder {
            folder.to_owned()
        } else {
            folder.join(self.path.file_stem().unwrap_or_default())
        };
        for (name, paths) in &module.outer {
            match paths.first() {
                Some(path) => inside = inside.join(path),
                None => inside.push(name),
            }
        }
        let named_from = if module.outer.is_empty() { folder } else { inside.as_path() };
        let outer = module.outer.iter().map(|(name, _)| name);
        let modules: Vec<_> = self.modules.iter().chain(outer).chain([&module.name]).cloned().collect();
        let file = |path: PathBuf, owns_folder| Self { path, modules: modules.clone(), owns_folder };
        let mut files: Vec<_> = module.paths.iter().map(|path| file(named_from.join(path), true)).collect();
        files.push(file(inside.join(format!("{}.rs", module.name)), false));
        files.push(file(inside.join(&module.name).join("mod.rs"), true));
        files
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tempfile::TempDir;

    use super::*;

    fn crate_of(files: &[(&str, &str)]) -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        folder
    }

    fn shown(folder: &Path) -> Vec<String> {
        let show = |source: &Source| {
            let path = source.path.strip_prefix(folder).unwrap().display().to_string();
            format!(
                "{path} {}{}",
                source.modules.join("::"),
                if source.found.is_ok() { "" } else { " unread" }
            )
        };
        let mut shown: Vec<_> = read(&folder.join("src/lib.rs")).iter().map(show).collect();
        shown.sort();
        shown
    }

    #[test]
    fn modules_are_where_rustc_looks() {
        let folder = crate_of(&[
            (
                "src/lib.rs",
                "mod a; mod b; mod gone; mod i { mod j; #[path = \"k2.rs\"] mod k; } #[path = \"../x/y.rs\"] mod z;",
            ),
            ("src/a.rs", "mod c; #[path = \"e2.rs\"] mod e;"),
            ("src/a/c.rs", ""),
            ("src/e2.rs", "mod f;"),
            ("src/f.rs", ""),
            ("src/b/mod.rs", "mod d;"),
            ("src/b/d.rs", "fn broken( {"),
            ("src/i/j.rs", ""),
            ("src/i/k2.rs", ""),
            ("x/y.rs", "mod w;"),
            ("x/w.rs", ""),
            ("src/not_a_module.rs", ""),
        ]);
        assert_eq!(
            shown(folder.path()),
            [
                "src/../x/w.rs z::w", "src/../x/y.rs z", "src/a.rs a", "src/a/c.rs a::c",
                "src/b/d.rs b::d unread", "src/b/mod.rs b", "src/e2.rs a::e", "src/f.rs a::e::f",
                "src/i/j.rs i::j", "src/i/k2.rs i::k", "src/lib.rs ",
            ]
        );
    }

    #[test]
    fn included_files_are_beside_the_file_that_includes_them() {
        let folder = crate_of(&[
            ("src/lib.rs", "mod a; include!(\"x/b.inc\");"),
            ("src/a.rs", "mod i { include!(\"x/c.rs\"); } include!(\"gone.rs\");"),
            ("src/x/b.inc", "mod d;"),
            ("src/x/c.rs", ""),
            ("src/x/d.rs", ""),
        ]);
        assert_eq!(
            shown(folder.path()),
            ["src/a.rs a", "src/lib.rs ", "src/x/b.inc ", "src/x/c.rs a::i", "src/x/d.rs d"]
        );
    }

    #[test]
    fn a_circle_ends() {
        let folder = crate_of(&[("src/lib.rs", "#[path = \"lib.rs\"] mod a;")]);
        assert_eq!(shown(folder.path()), ["src/lib.rs "]);
    }
}
