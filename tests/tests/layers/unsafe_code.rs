//! `UNSAFE.md` lists each file with `unsafe` code, and the sentence that says what the code
//! relies on. `PROBE_TEST_WRITE=1` writes the list anew.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

use crate::{Source, sources};

/// The words above the list.
const HEAD: &str = "\
# Files with `unsafe` code

Each crate denies `unsafe_code` at its root, and these files allow it. Beside each stands the first
sentence of its comment about that; each block has a `// SAFETY:` line, too. The test `layers` of
`probe-tests` makes this list from the sources: `PROBE_TEST_WRITE=1` writes it anew.
";

#[test]
fn the_list_of_files_with_unsafe_code_is_what_the_sources_say() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let path = workspace.join("UNSAFE.md");
    let list = list(&workspace);
    if env::var_os("PROBE_TEST_WRITE").is_some() {
        fs::write(&path, list).unwrap();
        return;
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<BTreeSet<_>>();
    let (new, old) = (lines(&list), lines(&written));
    assert!(
        list == written,
        "`PROBE_TEST_WRITE=1` writes UNSAFE.md anew; it lacks {:#?}, and should not have {:#?}",
        new.difference(&old).collect::<Vec<_>>(),
        old.difference(&new).collect::<Vec<_>>()
    );
}

fn list(workspace: &Path) -> String {
    let mut list = HEAD.to_owned();
    let mut forbidding = Vec::new();
    for krate in crates(workspace) {
        let all = sources(&krate.replace('-', "_"));
        let root = fs::read_to_string(&all[0].path).unwrap();
        if root.contains("#![forbid(unsafe_code)]") {
            forbidding.push(format!("- `{krate}`\n"));
            continue;
        }
        assert!(root.contains("#![deny(unsafe_code)]"), "{krate} neither denies nor forbids unsafe code");
        let rows: BTreeSet<_> = all.iter().filter(|it| !it.is_of_tests).filter_map(row).collect();
        let _ = write!(
            list,
            "\n## {krate}\n| file | safety |\n|---|---|\n{}",
            rows.into_iter().collect::<String>()
        );
    }
    let _ = write!(list, "\n## Crates without\nThese forbid it:\n{}", forbidding.concat());
    list
}

/// The published crates.
fn crates(workspace: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(workspace).unwrap().map(|it| it.unwrap());
    let names = entries.map(|it| it.file_name().into_string().unwrap());
    let is_ours = |it: &String| it.starts_with("probe-") || it == "cargo-probe";
    names.filter(|it| is_ours(it) && workspace.join(it).join("src/lib.rs").is_file()).collect()
}

/// A file's line, if it allows unsafe code.
fn row(source: &Source) -> Option<String> {
    let text = fs::read_to_string(&source.path).unwrap();
    let lines: Vec<_> = text.lines().collect();
    let mut sentences = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let is_allowed = line.contains("unsafe_code") && !line.contains("deny(") && !line.contains("forbid(");
        if is_allowed && !is_in_tests(&lines, at) {
            let sentence =
                sentence(&lines, at).unwrap_or_else(|| panic!("no reason in {}", source.path.display()));
            if !sentences.contains(&sentence) {
                sentences.push(sentence);
            }
        }
    }
    let path = source.path.to_str().unwrap().rsplit_once("/src/").expect("it is a source").1;
    (!sentences.is_empty()).then(|| format!("| `{path}` | {} |\n", sentences.join("; ")))
}

/// Whether an attribute in this line is of a module of tests, or in one. Such modules come last.
fn is_in_tests(lines: &[&str], at: usize) -> bool {
    let item = lines[at..].iter().find(|it| !it.starts_with("#["));
    item.is_some_and(|it| it.starts_with("mod tests {")) || lines[..at].contains(&"mod tests {")
}

/// Returns the reason of the attribute in this line, or the first sentence of the comment that it
/// refers to.
fn sentence(lines: &[&str], at: usize) -> Option<String> {
    let attribute = lines[at..].iter().take(3).find_map(|it| it.split_once("reason = \""))?;
    let reason = attribute.1.split_once('"')?.0;
    if !reason.starts_with("see above") {
        return Some(reason.to_owned());
    }
    let (from, first) = lines[..at].iter().enumerate().rev().find_map(|(from, it)| {
        let (before, first) = it.split_once("Safety: ")?;
        before.trim_start().starts_with("//").then_some((from, first))
    })?;
    let mut text = first.to_owned();
    for line in &lines[from + 1..at] {
        match line.trim_start().strip_prefix("// ") {
            Some(more) => text = format!("{text} {more}"),
            None => break,
        }
    }
    let end = text.find(". ").unwrap_or(text.len());
    Some(text[..end].trim_end_matches('.').to_owned())
}
