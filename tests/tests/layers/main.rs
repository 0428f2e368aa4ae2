//! The rooms of each crate stand one above the other, as ARCHITECTURE.md lists them: each names
//! those listed before it only. Cargo holds the order of crates.

mod paths;
mod unsafe_code;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use paths::File;
use syn::visit::Visit;

/// A crate's sources.
fn root(krate: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(krate.replace('_', "-")).join("src")
}

/// Modules whose own modules are rooms: the wings of `probe-runtime`.
const WINGS: [&str; 2] = ["engine", "session"];

/// The room that a module is in; `None` for the crate's root, and for a wing's own file.
fn room_of(modules: &[String]) -> Option<String> {
    match modules {
        [wing, rest @ ..] if WINGS.contains(&wing.as_str()) => Some(format!("{wing}/{}", rest.first()?)),
        [room, ..] => Some(room.clone()),
        [] => None,
    }
}

const ARCHITECTURE: &str = include_str!("../../../ARCHITECTURE.md");

#[test]
fn the_tests_of_the_invariants_exist() {
    let table = ARCHITECTURE.split("## Invariants\n").nth(1).and_then(|rest| rest.split("\n## ").next());
    let held_by = table.expect("it has such a chapter").lines().filter_map(|it| it.rsplit_once(" | "));
    let paths: Vec<_> = held_by.flat_map(|(_, it)| it.split('`').skip(1).step_by(2)).collect();
    assert!(!paths.is_empty());
    for path in paths {
        // `folder/{one,another}`
        let (folder, names) = path.split_once('{').unwrap_or((path, ""));
        for name in names.trim_end_matches('}').split(',') {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(format!("{folder}{name}"));
            assert!(path.exists() || path.with_extension("rs").exists(), "{}", path.display());
        }
    }
}

/// The rooms of a crate, from the lowest up, and which names are against this order on purpose.
struct Plan {
    rooms: Vec<&'static str>,
    exceptions: BTreeSet<(&'static str, &'static str)>,
}

impl Plan {
    /// Reads the list below the crate's heading: lines ``- `room`: …``, of which some end in
    /// ``; names `room`: why``.
    fn read(krate: &str) -> Self {
        let heading = format!("\n### {}\n", krate.replace('_', "-"));
        let chapter = ARCHITECTURE.split(&heading).nth(1).and_then(|rest| rest.split("\n#").next());
        let mut plan = Self { rooms: Vec::new(), exceptions: BTreeSet::new() };
        for line in chapter.expect("the crate has a heading").split("\n- `").skip(1) {
            let (room, line) = line.split_once('`').expect("`room`");
            plan.rooms.push(room);
            let exceptions = line.split("names").filter_map(|it| it.trim_start().strip_prefix('`'));
            plan.exceptions.extend(exceptions.filter_map(|it| Some((room, it.split('`').next()?))));
        }
        plan
    }

    fn level(&self, room: &str) -> Option<usize> {
        self.rooms.iter().position(|it| *it == room)
    }
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
    fn declared(
        &self,
        krate: &str,
        items: &[syn::Item],
        within: &[String],
        is_of_tests: bool,
        found: &mut Vec<Self>,
    ) {
        for item in items {
            let syn::Item::Mod(module) = item else { continue };
            let modules: Vec<_> = within.iter().cloned().chain([module.ident.to_string()]).collect();
            let is_of_tests = is_of_tests || paths::is_of_tests(&module.attrs);
            if let Some((_, items)) = &module.content {
                self.declared(krate, items, &modules, is_of_tests, found);
            } else {
                let path = self.file_of(krate, &modules, &module.attrs);
                found.push(Self::read(path, modules, is_of_tests));
            }
        }
    }

    fn file_of(&self, krate: &str, modules: &[String], attributes: &[syn::Attribute]) -> PathBuf {
        if let Some(it) = attributes.iter().find(|it| it.path().is_ident("path")) {
            let syn::Meta::NameValue(value) = &it.meta else { panic!("`#[path]` has a value") };
            let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(path), .. }) = &value.value else {
                panic!("`#[path]` is a text");
            };
            return self.path.with_file_name(path.value());
        }
        let path = modules.iter().fold(root(krate), |path, module| path.join(module));
        // The last one is of a file that was declared with a path: its modules stand beside it.
        let beside = self.path.with_file_name(path.file_name().expect("a module"));
        let candidates = [path.join("mod.rs"), path.with_extension("rs"), beside.with_extension("rs")];
        candidates.into_iter().find(|it| it.is_file()).expect("a declared module has a file")
    }
}

/// All files of a crate, found from `lib.rs` and `main.rs` on by their declarations.
fn sources(krate: &str) -> Vec<Source> {
    let roots = ["lib.rs", "main.rs"].map(|name| root(krate).join(name));
    let roots = roots.into_iter().filter(|it| it.is_file());
    let mut found: Vec<_> = roots.map(|it| Source::read(it, Vec::new(), false)).collect();
    let mut next = 0;
    while let Some(source) = found.get(next) {
        let mut declared = Vec::new();
        source.declared(krate, &source.parsed.items, &source.modules, source.is_of_tests, &mut declared);
        found.extend(declared);
        next += 1;
    }
    found
}

fn rooms(sources: &[Source]) -> BTreeSet<String> {
    sources.iter().filter(|it| !it.is_of_tests).filter_map(|it| room_of(&it.modules)).collect()
}

/// Which rooms each room of a crate names, and one file that does.
fn arrows(krate: &str, sources: &[Source]) -> BTreeMap<(String, String), PathBuf> {
    let rooms = rooms(sources);
    let mut arrows = BTreeMap::new();
    for source in sources.iter().filter(|it| !it.is_of_tests) {
        let Some(room) = room_of(&source.modules) else { continue };
        let mut file = File::new(krate, source.modules.clone(), &rooms);
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

/// One test for each crate: its files are read once.
macro_rules! crates {
    ($($krate:ident)*) => { $(
        #[test]
        fn $krate() {
            let krate = stringify!($krate);
            let sources = sources(krate);
            every_file_is_read_and_every_room_is_listed(krate, &sources);
            rooms_name_those_below_them_only(krate, &sources);
        }
    )* };
}
crates!(probe_core probe_lang probe_report probe_expand probe_patch probe_trace probe_protocol probe_inject probe_hooks probe_runtime
    probe_sync probe_build probe_cc probe_coldpatch probe_cli cargo_probe);

fn every_file_is_read_and_every_room_is_listed(krate: &str, sources: &[Source]) {
    let mut all = BTreeSet::new();
    files(&root(krate), &mut all);
    let read: BTreeSet<_> = sources.iter().map(|it| it.path.clone()).collect();
    assert_eq!(all.difference(&read).collect::<Vec<_>>(), Vec::<&PathBuf>::new(), "nothing declares them");
    let mut listed = Plan::read(krate).rooms;
    listed.sort_unstable();
    assert_eq!(listed, rooms(sources).iter().map(String::as_str).collect::<Vec<_>>());
}

fn rooms_name_those_below_them_only(krate: &str, sources: &[Source]) {
    let (plan, arrows) = (Plan::read(krate), arrows(krate, sources));
    let mut wrong = Vec::new();
    for ((from, to), path) in &arrows {
        if plan.level(to).is_none() {
            wrong.push(format!("{from} names {to}, which is no room, in {}", path.display()));
        } else if plan.level(from) < plan.level(to) && !plan.exceptions.contains(&(from, to)) {
            wrong.push(format!("{from} names {to}, in {}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "against the order of rooms:\n{}", wrong.join("\n"));
    for (from, to) in &plan.exceptions {
        let is_needed =
            arrows.contains_key(&((*from).to_owned(), (*to).to_owned())) && plan.level(from) < plan.level(to);
        assert!(is_needed, "`{from} names {to}` is no exception any more: take it out of ARCHITECTURE.md");
    }
}
