//! The rooms of `probe-runtime` stand one above the other, as ARCHITECTURE.md says: each names those
//! below it only. All paths of the sources are read, also those in macros, but for tests. A path
//! that begins at the root has to go on with a room: what `lib.rs` exports hides whose it is.

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

/// What macros that expansions use begin with: they lie at the root, wherever they are written.
const MACROS: &str = "__probe_v1";

/// A source file, as paths in it are read.
struct File<'a> {
    /// The modules that it is in, the room first; none for the crate's root.
    modules: Vec<String>,
    rooms: &'a BTreeSet<String>,
    /// The rooms; of a path that leads to the root and into no room, the whole path.
    named: BTreeSet<String>,
}

impl File<'_> {
    /// Notes what a path names, if it is one of this crate.
    fn note(&mut self, path: &[String]) {
        let mut at = match path.first().map(String::as_str) {
            Some("crate" | "probe_runtime") => Vec::new(),
            Some("self") => self.modules.clone(),
            Some("super") => self.modules[..self.modules.len().saturating_sub(1)].to_vec(),
            Some("$") if path.get(1).is_some_and(|it| it == "crate") => return self.note_expanded(path),
            _ => return,
        };
        for part in &path[1..] {
            match part.as_str() {
                "super" => drop(at.pop()),
                "self" => (),
                _ => at.push(part.clone()),
            }
        }
        match at.first() {
            Some(room) if self.rooms.contains(room) => self.named.insert(room.clone()),
            Some(name) if name.starts_with(MACROS) => false,
            _ => self.named.insert(path.join("::")),
        };
    }

    /// Notes a path of `$crate`: it is of the users of a macro, who reach `__private` only.
    fn note_expanded(&mut self, path: &[String]) {
        if !path.get(2).is_some_and(|it| it == "__private" || it.starts_with(MACROS)) {
            self.named.insert(format!("${}", path[1..].join("::")));
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

    /// Notes the paths in a macro's tokens. `before` is the path that they go on, as in
    /// `use crate::{…}`.
    fn note_tokens(&mut self, tokens: TokenStream, before: &[String]) {
        let mut path = before.to_vec();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(ident) if colons == 2 || path == before || path == ["$"] => {
                    path.push(ident.to_string());
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => {
                    colons += 1;
                    continue;
                }
                TokenTree::Group(group) if colons == 2 => {
                    self.note_tokens(group.stream(), &path);
                    path = before.to_vec();
                }
                TokenTree::Group(_) if path == ["pub"] => path.clear(),
                other => {
                    // The root by itself is no path, but in `crate::*` and in `crate as`.
                    let is_as = matches!(&other, TokenTree::Ident(ident) if ident == "as");
                    if colons == 2 || is_as || !matches!(&*path, [root] | [_, root] if root == "crate") {
                        self.note(&path);
                    }
                    path = before.to_vec();
                    match other {
                        TokenTree::Punct(punct) if punct.as_char() == '$' => path.push("$".to_owned()),
                        TokenTree::Ident(ident) => path.push(ident.to_string()),
                        TokenTree::Group(group) => self.note_tokens(group.stream(), &[]),
                        _ => (),
                    }
                }
            }
            colons = 0;
        }
        if path != before {
            self.note(&path);
        }
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

    fn visit_item_extern_crate(&mut self, item: &'ast syn::ItemExternCrate) {
        if item.ident == "self" {
            self.note(&["crate".to_owned()]);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.note_use(&item.tree, &mut Vec::new());
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.note(&path.segments.iter().map(|it| it.ident.to_string()).collect::<Vec<_>>());
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        self.note_tokens(item.tokens.clone(), &[]);
        visit::visit_macro(self, item);
    }

    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}

    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}
}

/// A source file, and the modules that it is in, the room first.
struct Source {
    path: PathBuf,
    modules: Vec<String>,
    is_of_tests: bool,
    parsed: syn::File,
}

impl Source {
    fn read(path: PathBuf, modules: Vec<String>, is_of_tests: bool) -> Self {
        let parsed = syn::parse_file(&fs::read_to_string(&path).unwrap()).unwrap();
        Self { path, modules, is_of_tests, parsed }
    }

    /// Adds the files of the modules that are declared here.
    fn declared(&self, items: &[syn::Item], within: &[String], is_of_tests: bool, found: &mut Vec<Self>) {
        for item in items {
            let syn::Item::Mod(module) = item else { continue };
            let modules: Vec<_> = within.iter().cloned().chain([module.ident.to_string()]).collect();
            let is_of_tests = is_of_tests || self::is_of_tests(&module.attrs);
            if let Some((_, items)) = &module.content {
                self.declared(items, &modules, is_of_tests, found);
            } else {
                let path = self.file_of(&modules, &module.attrs);
                found.push(Self::read(path, modules, is_of_tests));
            }
        }
    }

    fn file_of(&self, modules: &[String], attributes: &[syn::Attribute]) -> PathBuf {
        if let Some(it) = attributes.iter().find(|it| it.path().is_ident("path")) {
            let syn::Meta::NameValue(value) = &it.meta else { panic!("`#[path]` has a value") };
            let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(path), .. }) = &value.value else {
                panic!("`#[path]` is a text");
            };
            return self.path.with_file_name(path.value());
        }
        let path = modules.iter().fold(PathBuf::from(ROOT), |path, module| path.join(module));
        let candidates = [path.join("mod.rs"), path.with_extension("rs")];
        candidates.into_iter().find(|it| it.is_file()).expect("a declared module has a file")
    }
}

/// All files, found from `lib.rs` on by their declarations.
fn sources() -> Vec<Source> {
    let mut found = vec![Source::read(Path::new(ROOT).join("lib.rs"), Vec::new(), false)];
    let mut next = 0;
    while let Some(source) = found.get(next) {
        let mut declared = Vec::new();
        source.declared(&source.parsed.items, &source.modules, source.is_of_tests, &mut declared);
        found.extend(declared);
        next += 1;
    }
    found
}

fn rooms(sources: &[Source]) -> BTreeSet<String> {
    let production = sources.iter().filter(|it| !it.is_of_tests);
    production.filter_map(|it| it.modules.first().cloned()).collect()
}

/// Which rooms each room names, and one file that does.
fn arrows() -> BTreeMap<(String, String), PathBuf> {
    let sources = sources();
    let rooms = rooms(&sources);
    let mut arrows = BTreeMap::new();
    for source in sources.into_iter().filter(|it| !it.is_of_tests) {
        let Some(room) = source.modules.first().cloned() else { continue };
        let mut file = File { modules: source.modules, rooms: &rooms, named: BTreeSet::new() };
        file.visit_file(&source.parsed);
        for named in file.named.into_iter().filter(|named| *named != room) {
            arrows.entry((room.clone(), named)).or_insert_with(|| source.path.clone());
        }
    }
    arrows
}

/// All sources in a folder, and in those below.
fn files(folder: &Path, found: &mut BTreeSet<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|it| it == "rs") {
            found.insert(path);
        }
    }
}

#[test]
fn every_file_is_read_and_every_room_has_one_level() {
    let sources = sources();
    let mut all = BTreeSet::new();
    files(Path::new(ROOT), &mut all);
    let read: BTreeSet<_> = sources.iter().map(|it| it.path.clone()).collect();
    assert_eq!(all.difference(&read).collect::<Vec<_>>(), Vec::<&PathBuf>::new(), "nothing declares them");
    let mut levels: Vec<_> = Plan::read().levels.concat();
    levels.sort_unstable();
    assert_eq!(levels, rooms(&sources).iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn rooms_name_those_below_them_only() {
    let (plan, arrows) = (Plan::read(), arrows());
    let mut wrong = Vec::new();
    for ((from, to), path) in &arrows {
        let is_excepted = plan.exceptions.contains(&(from.as_str(), to.as_str()));
        match (plan.level(from), plan.level(to)) {
            (Some(upper), Some(lower)) if upper > lower || is_excepted => (),
            (_, None) => wrong.push(format!("{from} names {to}, which is no room, in {}", path.display())),
            _ => wrong.push(format!("{from} names {to}, in {}", path.display())),
        }
    }
    assert!(wrong.is_empty(), "against the order of rooms:\n{}", wrong.join("\n"));
    for (from, to) in &plan.exceptions {
        let is_needed = arrows.contains_key(&((*from).to_owned(), (*to).to_owned()))
            && plan.level(from) <= plan.level(to);
        assert!(is_needed, "`{from} names {to}` is no exception any more: take it out of ARCHITECTURE.md");
    }
}

/// What a file of `x::y` names.
fn named(source: &str) -> Vec<String> {
    let rooms: BTreeSet<_> = ["a", "b", "c", "d", "e", "x"].map(str::to_owned).into();
    let mut file = File { modules: vec!["x".into(), "y".into()], rooms: &rooms, named: BTreeSet::new() };
    file.visit_file(&syn::parse_str(source).unwrap());
    file.named.into_iter().collect()
}

#[test]
fn paths_are_found_wherever_they_are() {
    let source = "
        use crate::{a::One, x::Own};
        #[cfg(test)] mod tests { use crate::e::No; }
        fn f() -> super::super::b::Two { say!(1, crate::c::three(), $crate::__private::no()); self::z::four() }
        mod inner { use super::super::super::d; }
    ";
    assert_eq!(named(source), ["a", "b", "c", "d", "x"]);
    assert_eq!(named("fn f() { say!(use crate::{a::One, b}; d::no()) }"), ["a", "b"]);
    assert_eq!(named("use probe_runtime::a::One; fn f() { ::probe_runtime::b::two() }"), ["a", "b"]);
}

#[test]
fn the_root_is_no_way_into_a_room() {
    for source in [
        "use crate::Counts;",
        "use super::super::Counts;",
        "use probe_runtime::Counts;",
        "use crate::*;",
        "use super::super::*;",
        "use crate as c;",
        "use crate::{self as c};",
        "extern crate self as c;",
        "fn f() -> Result<(), crate::Error> {}",
        "fn f() { say!(crate::failed_captures()) }",
        "fn f() { say!(use crate::*;) }",
        "fn f() { say!(use crate as c;) }",
        "fn f() { say!($crate::a::one()) }",
        "fn f() { say!(use $crate::{a, b};) }",
        "fn f() { say!(use $crate as c;) }",
    ] {
        let rooms = ["a", "b", "c", "d", "e", "x"];
        let named = named(source);
        assert!(named.iter().any(|it| !rooms.contains(&it.as_str())), "`{source}` names {named:?}");
    }
}

#[test]
fn neither_macros_nor_visibility_name_a_room() {
    let source = "
        pub use crate::{__probe_v1_exit as exit, __probe_v1_stub as stub};
        pub(crate) fn f() { say!(pub(crate) fn g(); #[linkme(crate = $crate::__private::v1::linkme)]) }
        pub(super) fn h() { say!($crate::__probe_v1_exit!(), $x::a) }
    ";
    assert_eq!(named(source), Vec::<String>::new());
}
