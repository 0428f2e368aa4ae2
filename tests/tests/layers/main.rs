//! The rooms of each crate stand one above the other, as ARCHITECTURE.md says: each names those
//! below it only. The crates that others here build on are rooms to these, too.

mod circles;
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

/// The crates that one stands on. To it, each is one more room, which only rooms name whose
/// exception says so: its parts stand on several levels.
fn below(krate: &str) -> &'static [&'static str] {
    match krate {
        "probe_runtime" => &["probe_patch", "probe_trace", "probe_protocol"],
        "probe_cli" => &["probe_trace", "probe_protocol", "probe_inject", "probe_runtime"],
        _ => &[],
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

/// The rooms, from the lowest up, and which names are against the order on purpose.
struct Plan {
    levels: Vec<Vec<&'static str>>,
    exceptions: BTreeSet<(&'static str, &'static str)>,
}

impl Plan {
    /// From the block that begins with `layers` and the crate: rooms of one level beside each
    /// other, those below first; then lines `room names room: why`.
    fn read(krate: &str) -> Self {
        let begin = format!("```layers {krate}\n");
        let block = ARCHITECTURE.split(&begin).nth(1).and_then(|rest| rest.split("```").next());
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

    /// Whether the order of rooms alone lets one name another.
    fn allows(&self, from: &str, to: &str) -> bool {
        !CRATES.contains(&to) && self.level(from) > self.level(to)
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

fn rooms(krate: &str, sources: &[Source]) -> BTreeSet<String> {
    let production = sources.iter().filter(|it| !it.is_of_tests);
    let own = production.filter_map(|it| it.modules.first().cloned());
    own.chain(below(krate).iter().map(|&it| it.to_owned())).collect()
}

/// Which rooms each room of a crate names, and one file that does.
fn arrows(krate: &str, sources: &[Source]) -> BTreeMap<(String, String), PathBuf> {
    let rooms = rooms(krate, sources);
    let mut arrows = BTreeMap::new();
    for source in sources.iter().filter(|it| !it.is_of_tests) {
        let Some(room) = source.modules.first().cloned() else { continue };
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
    ($($krate:ident)*) => {
        /// The crates.
        const CRATES: [&str; [$(stringify!($krate)),*].len()] = [$(stringify!($krate)),*];

        $(
            #[test]
            fn $krate() {
                let krate = stringify!($krate);
                let sources = sources(krate);
                every_file_is_read_and_every_room_has_one_level(krate, &sources);
                rooms_name_those_below_them_only(krate, &sources);
                circles::are_small(krate, &sources);
            }
        )*
    };
}
crates!(probe_patch probe_trace probe_protocol probe_inject probe_runtime probe_cli);

fn every_file_is_read_and_every_room_has_one_level(krate: &str, sources: &[Source]) {
    let mut all = BTreeSet::new();
    files(&root(krate), &mut all);
    let read: BTreeSet<_> = sources.iter().map(|it| it.path.clone()).collect();
    assert_eq!(all.difference(&read).collect::<Vec<_>>(), Vec::<&PathBuf>::new(), "nothing declares them");
    let mut levels: Vec<_> = Plan::read(krate).levels.concat();
    levels.sort_unstable();
    assert_eq!(levels, rooms(krate, sources).iter().map(String::as_str).collect::<Vec<_>>());
}

fn rooms_name_those_below_them_only(krate: &str, sources: &[Source]) {
    let (plan, arrows) = (Plan::read(krate), arrows(krate, sources));
    let mut wrong = Vec::new();
    for ((from, to), path) in &arrows {
        let is_excepted = plan.exceptions.contains(&(from.as_str(), to.as_str()));
        match plan.level(to) {
            Some(_) if plan.allows(from, to) || is_excepted => (),
            None => wrong.push(format!("{from} names {to}, which is no room, in {}", path.display())),
            _ => wrong.push(format!("{from} names {to}, in {}", path.display())),
        }
    }
    assert!(wrong.is_empty(), "against the order of rooms:\n{}", wrong.join("\n"));
    for (from, to) in &plan.exceptions {
        let is_needed =
            arrows.contains_key(&((*from).to_owned(), (*to).to_owned())) && !plan.allows(from, to);
        assert!(is_needed, "`{from} names {to}` is no exception any more: take it out of ARCHITECTURE.md");
    }
}
