//! The rooms that a source file names. All its paths are read, also those in macros, but for tests.
//! A path that begins at the root has to continue with a room: an export of `lib.rs` hides its
//! room.

use std::collections::BTreeSet;

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};

use crate::room_of;

/// The prefix of the macros that expansions use. They lie at the root, wherever they are written.
const MACROS: &str = "__probe_v1";

/// A source file, as paths in it are read.
pub(crate) struct File<'a> {
    krate: &'a str,
    /// The modules that it is in, the room first; none for the crate's root.
    modules: Vec<String>,
    rooms: &'a BTreeSet<String>,
    /// The rooms; of a path that leads to the root and into no room, the whole path.
    pub(crate) named: BTreeSet<String>,
}

impl<'a> File<'a> {
    pub(crate) fn new(krate: &'a str, modules: Vec<String>, rooms: &'a BTreeSet<String>) -> Self {
        Self { krate, modules, rooms, named: BTreeSet::new() }
    }
}

impl File<'_> {
    /// Notes what a path names, if it is of this crate.
    fn note(&mut self, path: &[String]) {
        let mut at = match path.first().map(String::as_str) {
            Some("crate") => Vec::new(),
            Some(krate) if krate == self.krate => Vec::new(),
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
        match room_of(&at) {
            Some(room) if self.rooms.contains(&room) => self.named.insert(room),
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

    /// Notes the paths in a macro's tokens. `before` is the path that they continue, as in
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

pub(crate) fn is_of_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().filter(|it| it.path().is_ident("cfg")).any(|it| {
        let syn::Meta::List(list) = &it.meta else { return false };
        let text = list.tokens.to_string();
        text == "test" || text.starts_with("all (test") || text.starts_with("all (doctest")
    })
}

pub(crate) fn is_item_of_tests(item: &syn::Item) -> bool {
    match item {
        syn::Item::Mod(it) => is_of_tests(&it.attrs),
        syn::Item::Use(it) => is_of_tests(&it.attrs),
        syn::Item::Fn(it) => is_of_tests(&it.attrs),
        syn::Item::Static(it) => is_of_tests(&it.attrs),
        syn::Item::Impl(it) => is_of_tests(&it.attrs),
        _ => false,
    }
}

impl<'ast> Visit<'ast> for File<'_> {
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

/// The rooms that a file of `x::y` names.
fn named(source: &str) -> Vec<String> {
    let rooms: BTreeSet<_> = ["a", "b", "c", "d", "e", "x", "engine/f"].map(str::to_owned).into();
    let mut file = File::new("probe_runtime", vec!["x".into(), "y".into()], &rooms);
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
fn a_wing_is_no_room_but_has_rooms() {
    assert_eq!(named("use crate::engine::f::One; fn f() { probe_patch::a() }"), ["engine/f"]);
    assert_eq!(named("use crate::engine::{f, g};"), ["crate::engine::g", "engine/f"]);
    assert_eq!(named("fn f() { crate::engine() }"), ["crate::engine"]);
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
