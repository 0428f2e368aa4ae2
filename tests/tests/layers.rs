//! The rooms of `probe-runtime` stand one above the other, as ARCHITECTURE.md says: each names those
//! below it only. All paths of the sources are read, also those in macros, but for tests.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../probe-runtime/src");
const ARCHITECTURE: &str = include_str!("../../ARCHITECTURE.md");

/// The rooms, from the lowest up, and which names are against the order on purpose.
struct Plan {
    levels: Vec<Vec<&'static str>>,
    exceptions: BTreeSet<(&'static str, &'static str)>,
}

impl Plan {
    /// From the block that begins with `layers`: rooms of one level beside each other, those below
    /// first; then lines `room names room: why`.
    fn read() -> Self {
        let block = ARCHITECTURE.split("```layers\n").nth(1).and_then(|rest| rest.split("```").next());
        let mut plan = Self { levels: Vec::new(), exceptions: BTreeSet::new() };
        for line in block.expect("it has such a block").lines() {
            if let Some((pair, _why)) = line.split_once(": ") {
                let (from, to) = pair.split_once(" names ").expect("`room names room: why`");
                plan.exceptions.insert((from, to));
            } else {
                plan.levels.push(line.split_whitespace().collect());
            }
        }
        plan
    }

    fn level(&self, room: &str) -> Option<usize> {
        self.levels.iter().position(|level| level.contains(&room))
    }
}

/// A source file, as paths in it are read.
struct File<'a> {
    /// The modules that it is in, the room first; none for the crate's root.
    modules: Vec<String>,
    rooms: &'a BTreeSet<String>,
    named: BTreeSet<String>,
}

impl File<'_> {
    /// Notes the room that a path names, if it names one.
    fn note(&mut self, path: &[String]) {
        let mut at = match path.first().map(String::as_str) {
            Some("crate") => Vec::new(),
            Some("self") => self.modules.clone(),
            Some("super") => self.modules[..self.modules.len().saturating_sub(1)].to_vec(),
            _ => return,
        };
        for part in &path[1..] {
            if part == "super" {
                at.pop();
            } else {
                at.push(part.clone());
            }
        }
        if let Some(room) = at.first().filter(|room| self.rooms.contains(*room)) {
            self.named.insert(room.clone());
        }
    }

    fn note_use(&mut self, tree: &syn::UseTree, before: &mut Vec<String>) {
        match tree {
            syn::UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.note_use(&path.tree, before);
                before.pop();
            }
            syn::UseTree::Name(name) => self.note_with(before, &name.ident),
            syn::UseTree::Rename(name) => self.note_with(before, &name.ident),
            syn::UseTree::Glob(_) => self.note(before),
            syn::UseTree::Group(group) => group.items.iter().for_each(|tree| self.note_use(tree, before)),
        }
    }

    fn note_with(&mut self, before: &[String], last: &syn::Ident) {
        self.note(&before.iter().cloned().chain([last.to_string()]).collect::<Vec<_>>());
    }

    /// Notes the paths in a macro's tokens, but for those of `$crate`: they are its users'.
    fn note_tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(ident) if colons == 2 || path.is_empty() || path == ["$"] => {
                    path.push(ident.to_string());
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => {
                    colons += 1;
                    continue;
                }
                other => {
                    self.note(&std::mem::take(&mut path));
                    match other {
                        TokenTree::Punct(punct) if punct.as_char() == '$' => path.push("$".to_owned()),
                        TokenTree::Ident(ident) => path.push(ident.to_string()),
                        TokenTree::Group(group) => self.note_tokens(group.stream()),
                        _ => (),
                    }
                }
            }
            colons = 0;
        }
        self.note(&path);
    }
}

fn is_of_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().filter(|it| it.path().is_ident("cfg")).any(|it| {
        let syn::Meta::List(list) = &it.meta else { return false };
        let text = list.tokens.to_string();
        text == "test" || text.starts_with("all (test") || text.starts_with("all (doctest")
    })
}

impl<'ast> Visit<'ast> for File<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let attributes = match item {
            syn::Item::Mod(it) => &it.attrs,
            syn::Item::Use(it) => &it.attrs,
            syn::Item::Fn(it) => &it.attrs,
            syn::Item::Static(it) => &it.attrs,
            syn::Item::Impl(it) => &it.attrs,
            _ => return visit::visit_item(self, item),
        };
        if !is_of_tests(attributes) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        self.modules.push(module.ident.to_string());
        visit::visit_item_mod(self, module);
        self.modules.pop();
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.note_use(&item.tree, &mut Vec::new());
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.note(&path.segments.iter().map(|it| it.ident.to_string()).collect::<Vec<_>>());
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        self.note_tokens(item.tokens.clone());
        visit::visit_macro(self, item);
    }

    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|it| it == "rs") {
            found.push(path);
        }
    }
}

/// The modules of a file, the room first.
fn modules(path: &Path) -> Vec<String> {
    let path = path.strip_prefix(ROOT).unwrap().with_extension("");
    let mut modules: Vec<_> = path.iter().map(|it| it.to_str().unwrap().to_owned()).collect();
    if modules.last().is_some_and(|last| last == "mod" || last == "lib") {
        modules.pop();
    }
    modules
}

/// Which rooms each room names, and one file that does.
fn arrows() -> BTreeMap<(String, String), PathBuf> {
    let mut files = Vec::new();
    sources(Path::new(ROOT), &mut files);
    files.sort();
    let rooms: BTreeSet<_> = files.iter().filter_map(|path| modules(path).first().cloned()).collect();
    let mut arrows = BTreeMap::new();
    for path in files {
        let modules = modules(&path);
        let is_of_tests = modules.iter().any(|it| it == "tests" || it == "interleavings" || it == "model");
        let Some(room) = modules.first().filter(|_| !is_of_tests).cloned() else { continue };
        let mut file = File { modules, rooms: &rooms, named: BTreeSet::new() };
        file.visit_file(&syn::parse_file(&fs::read_to_string(&path).unwrap()).unwrap());
        for named in file.named.into_iter().filter(|named| *named != room) {
            arrows.entry((room.clone(), named)).or_insert_with(|| path.clone());
        }
    }
    arrows
}

#[test]
fn rooms_name_those_below_them_only() {
    let (plan, arrows) = (Plan::read(), arrows());
    let mut wrong = Vec::new();
    for ((from, to), path) in &arrows {
        let is_excepted = plan.exceptions.contains(&(from.as_str(), to.as_str()));
        match (plan.level(from), plan.level(to)) {
            (None, _) => wrong.push(format!("{from} is on no level of ARCHITECTURE.md")),
            (_, None) => wrong.push(format!("{to} is on no level of ARCHITECTURE.md")),
            (Some(upper), Some(lower)) if upper > lower || is_excepted => (),
            _ => wrong.push(format!("{from} names {to}, in {}", path.display())),
        }
    }
    wrong.dedup();
    assert!(wrong.is_empty(), "against the order of rooms:\n{}", wrong.join("\n"));
    for (from, to) in &plan.exceptions {
        let is_needed = arrows.contains_key(&((*from).to_owned(), (*to).to_owned()))
            && plan.level(from) <= plan.level(to);
        assert!(is_needed, "`{from} names {to}` is no exception any more: take it out of ARCHITECTURE.md");
    }
}

#[test]
fn paths_are_found_wherever_they_are() {
    let rooms: BTreeSet<_> = ["a", "b", "c", "d", "e"].map(str::to_owned).into();
    let mut file = File { modules: vec!["x".into(), "y".into()], rooms: &rooms, named: BTreeSet::new() };
    let source = "
        use crate::{a::One, other};
        #[cfg(test)] mod tests { use crate::e::No; }
        fn f() -> super::super::b::Two { say!(1, crate::c::three(), $crate::e::no()); self::d::four() }
        mod inner { use super::super::super::d; }
    ";
    file.visit_file(&syn::parse_str(source).unwrap());
    assert_eq!(file.named.iter().map(String::as_str).collect::<Vec<_>>(), ["a", "b", "c", "d"]);
}
