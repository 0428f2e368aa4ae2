//! Circles of files that name each other, within a room. A name that a folder's file re-exports
//! counts for the file that it comes from. Files of all builds count at once. Neither calls of
//! methods nor code of tests count.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};

use crate::Source;
use crate::paths::is_item_of_tests;

/// The most files that may name each other in a circle.
const MOST: usize = 3;

/// A module's place in its crate, the room first.
type Place = Vec<String>;

/// The names that a file uses.
#[derive(Default)]
struct Names {
    modules: Place,
    /// The names that it imports, and where they come from: several places if the build decides.
    imported: BTreeMap<String, BTreeSet<Place>>,
    /// Paths in its code.
    paths: BTreeSet<Place>,
    /// Words in its code that may be imported names.
    words: BTreeSet<String>,
}

impl Names {
    /// Adds the names in a file of this module.
    fn read(&mut self, source: &Source) {
        self.modules.clone_from(&source.modules);
        self.visit_file(&source.parsed);
    }

    /// Returns a path from the crate's root on. A path that begins with another name may lead to a
    /// module below this one.
    fn absolute(&self, path: &[String]) -> Place {
        let (mut at, mut rest) = (self.modules.clone(), path);
        while let Some((first, after)) = rest.split_first() {
            match first.as_str() {
                "crate" => at.clear(),
                "self" => (),
                "super" => drop(at.pop()),
                _ => break,
            }
            rest = after;
        }
        at.extend(rest.iter().cloned());
        at
    }

    fn import(&mut self, tree: &syn::UseTree, before: &mut Vec<String>) {
        match tree {
            syn::UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.import(&path.tree, before);
                before.pop();
            }
            syn::UseTree::Name(name) if name.ident == "self" => {
                self.import_as(before, before.last().cloned());
            }
            syn::UseTree::Name(name) => {
                let path: Vec<_> = before.iter().cloned().chain([name.ident.to_string()]).collect();
                self.import_as(&path, path.last().cloned());
            }
            syn::UseTree::Rename(name) => {
                let path: Vec<_> = before.iter().cloned().chain([name.ident.to_string()]).collect();
                self.import_as(&path, Some(name.rename.to_string()));
            }
            syn::UseTree::Glob(_) => drop(self.paths.insert(self.absolute(before))),
            syn::UseTree::Group(group) => group.items.iter().for_each(|tree| self.import(tree, before)),
        }
    }

    fn import_as(&mut self, path: &[String], name: Option<String>) {
        let place = self.absolute(path);
        name.into_iter().for_each(|name| _ = self.imported.entry(name).or_default().insert(place.clone()));
    }

    fn note_tokens(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Ident(word) => drop(self.words.insert(word.to_string())),
                TokenTree::Group(group) => self.note_tokens(group.stream()),
                _ => (),
            }
        }
    }
}

impl<'ast> Visit<'ast> for Names {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !is_item_of_tests(item) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        self.modules.push(module.ident.to_string());
        visit::visit_item_mod(self, module);
        self.modules.pop();
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.import(&item.tree, &mut Vec::new());
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let path_of: Vec<_> = path.segments.iter().map(|it| it.ident.to_string()).collect();
        self.words.insert(path_of[0].clone());
        self.paths.insert(self.absolute(&path_of));
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        self.note_tokens(item.tokens.clone());
        visit::visit_macro(self, item);
    }

    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}

    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}
}

/// Adds the files that a path leads to, through re-exports.
fn find<'a>(
    files: &'a BTreeMap<Place, Names>,
    path: &[String],
    steps: usize,
    found: &mut BTreeSet<&'a Place>,
) {
    let longest = (1..=path.len()).rev().find_map(|length| files.get_key_value(&path[..length].to_vec()));
    let Some((file, names)) = longest else { return };
    let exported = path.get(file.len()).and_then(|name| names.imported.get(name)).filter(|_| steps > 0);
    let Some(places) = exported else {
        found.insert(file);
        return;
    };
    for place in places {
        find(files, &[place, &path[file.len() + 1..]].concat(), steps - 1, found);
    }
}

/// Which files of its room each file names.
fn arrows(files: &BTreeMap<Place, Names>) -> BTreeMap<&Place, BTreeSet<&Place>> {
    let named = |(file, names): (&Place, &Names)| {
        // An import that a folder's file does not use itself is a re-export.
        let is_folder = files.keys().any(|it| it.len() > file.len() && it.starts_with(file));
        let used = names.imported.iter().filter(|(name, _)| !is_folder || names.words.contains(*name));
        let mut found = BTreeSet::new();
        for path in used.flat_map(|(_, places)| places).chain(&names.paths) {
            find(files, path, 8, &mut found);
        }
        let (file, _) = files.get_key_value(file)?;
        Some((file, found.into_iter().filter(|it| it[0] == file[0] && *it != file).collect()))
    };
    files.iter().filter_map(named).collect()
}

/// Returns all files that a file leads to.
fn reached<'a>(arrows: &BTreeMap<&'a Place, BTreeSet<&'a Place>>, from: &'a Place) -> BTreeSet<&'a Place> {
    let (mut found, mut next) = (BTreeSet::new(), vec![from]);
    while let Some(file) = next.pop() {
        next.extend(arrows[file].iter().filter(|it| found.insert(**it)));
    }
    found
}

/// Returns the circles of more than `most` files.
fn circles(files: &BTreeMap<Place, Names>, most: usize) -> BTreeSet<Vec<String>> {
    let arrows = arrows(files);
    let circle_of = |file: &&Place| {
        let all = reached(&arrows, file);
        let circle = all.into_iter().filter(|it| reached(&arrows, it).contains(*file));
        circle.map(|it| it.join("::")).collect::<Vec<_>>()
    };
    files.keys().map(|file| circle_of(&file)).filter(|circle| circle.len() > most).collect()
}

/// No more than three files of a room of this crate name each other in a circle.
pub(crate) fn are_small(krate: &str, sources: &[Source]) {
    let production = sources.iter().filter(|it| !it.is_of_tests && !it.modules.is_empty());
    let mut files = BTreeMap::<Place, Names>::new();
    for source in production {
        // A build may choose between several files of one module.
        files.entry(source.modules.clone()).or_default().read(source);
    }
    assert_eq!(circles(&files, MOST), BTreeSet::new(), "of {krate}");
}

/// Returns the circles of these files of one room.
fn circles_of(files: &[(&str, &str)]) -> Vec<String> {
    let names = |(place, text): &(&str, &str)| {
        let modules: Place = place.split("::").map(str::to_owned).collect();
        let mut names = Names { modules: modules.clone(), ..Names::default() };
        names.visit_file(&syn::parse_str(text).unwrap());
        (modules, names)
    };
    circles(&files.iter().map(names).collect(), 1).iter().map(|circle| circle.join(" ")).collect()
}

#[test]
fn circles_are_found_through_re_exports() {
    let folder = ("x", "mod a; mod b; pub use a::One; use b::Two;");
    assert_eq!(circles_of(&[folder, ("x::a", "use super::b::Two;"), ("x::b", "")]), Vec::<String>::new());
    let b = ("x::b", "fn two() -> super::One {}");
    assert_eq!(circles_of(&[folder, ("x::a", "use super::Two; fn f(_: Two) {}"), b]), ["x::a x::b"]);
    assert_eq!(circles_of(&[folder, ("x::a", "fn f() { say!(1) }"), b]), Vec::<String>::new());
    let tests = ("x::a", "#[cfg(test)] mod tests { use super::super::b::Two; fn f(_: Two) {} }");
    assert_eq!(circles_of(&[folder, tests, b]), Vec::<String>::new());
    let folder = ("x", "mod a; struct Own; fn f() { a::go() }");
    assert_eq!(circles_of(&[folder, ("x::a", "pub fn go(_: super::Own) {}")]), ["x x::a"]);
}
