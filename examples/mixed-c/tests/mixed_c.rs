//! The mixed program counts exactly in both languages (it checks itself), lists C functions with
//! their places, and reports errors.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn run(arguments: &[&Path], probes: Option<&str>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mixed-c"));
    command.args(arguments).env_remove("PROBES");
    if let Some(probes) = probes {
        command.env("PROBES", probes);
    }
    command.output().expect("the example can be started")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_portable, probe_off))))]
mod patched {
    use super::*;

    /// Returns the last column of the line that begins with these words.
    fn number(table: &str, words: [&str; 2]) -> u64 {
        let rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let row = rows.into_iter().find(|row| row.starts_with(&words));
        let cell =
            row.as_ref().and_then(|row| row.last()).unwrap_or_else(|| panic!("no {words:?} in\n{table}"));
        cell.parse().unwrap_or_else(|_| panic!("{words:?} has {cell}"))
    }

    /// Returns the number of the line of the source that begins with this text.
    fn line_of(source: &str, beginning: &str) -> usize {
        source.lines().position(|line| line.trim_start().starts_with(beginning)).expect("the line is there")
            + 1
    }

    #[test]
    fn both_sides_are_in_one_table() {
        let output = run(&[], None);
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        assert_eq!((output.status.code(), stderr.as_str()), (Some(0), ""), "{stdout}");

        let source = include_str!("../c/squeeze.c");
        for (words, beginning) in [
            ("squeeze_compress entry", "size_t squeeze_compress("),
            ("squeeze_expand exit", "size_t squeeze_expand("),
            ("squeeze::match point", "PROBE_U64(\"match\""),
            ("squeeze::copy point", "PROBE_U64(\"copy\""),
        ] {
            let place = format!("c/squeeze.c:{}", line_of(source, beginning));
            let is_listed = |line: &str| {
                let row: Vec<_> = line.split_whitespace().collect();
                row.len() == 4 && row[..2].join(" ") == words && row[3].ends_with(&place)
            };
            assert!(stdout.lines().any(is_listed), "{words} at {place} in\n{stdout}");
        }

        let (_, once) = stdout.split_once("bytes came from matches").expect("the first table");
        let (once, running) = once.split_once("While 2 threads did ").expect("the second table");
        for path in ["mixed_c::archive", "squeeze_compress", "mixed_c::restore", "squeeze_expand"] {
            assert_eq!(["entry", "exit"].map(|kind| number(once, [path, kind])), [6, 6], "{path}");
        }
        let matches = number(once, ["squeeze::match", "point"]);
        assert!(matches > 100, "{matches}");
        assert_eq!(number(once, ["squeeze::copy", "point"]), matches);
        assert_eq!(number(once, ["bits_flush", "entry"]), 6);

        // While the program runs, entries and exits differ by the calls in progress, at either end.
        let [entered, left] = ["entry", "exit"].map(|kind| number(running, ["squeeze_compress", kind]));
        assert!(entered > 0 && entered.abs_diff(left) <= 2, "{entered} entries, {left} exits");
        assert!(number(running, ["squeeze::match", "point"]) > entered);
    }

    #[test]
    fn both_languages_are_in_one_tree_and_one_profile() {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let (file, csv) = (folder.join("a-tree.txt"), folder.join("a-tree.csv"));
        fs::write(&file, "a tree, a tree, and another tree").unwrap();
        let profile = format!("--profile={}", csv.display());
        let output = run(&[Path::new(&profile), &file], None);
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        assert_eq!((output.status.code(), stderr.as_str()), (Some(0), ""), "{stdout}");

        let csv = fs::read_to_string(csv).unwrap();
        let calls: Vec<(&str, u64)> = (csv.lines().skip(1))
            .map(|line| {
                let cells: Vec<_> = line.split(',').collect();
                (cells[0], cells[2].parse().unwrap())
            })
            .collect();
        let of = |stack: &str| calls.iter().find(|(found, _)| *found == stack).map(|(_, calls)| *calls);
        // For each of two threads and each file, Rust calls Rust, which calls C, which calls C.
        let archive = "mixed_c::round_trip;mixed_c::archive;mixed_c::squeeze::compress";
        let restore = "mixed_c::round_trip;mixed_c::restore;mixed_c::squeeze::expand";
        let (compress, expand) = (format!("{archive};squeeze_compress"), format!("{restore};squeeze_expand"));
        for stack in [
            "mixed_c::round_trip",
            "mixed_c::round_trip;mixed_c::archive",
            archive,
            restore,
            &format!("{archive};squeeze_bound"),
            &compress,
            &format!("{compress};bits_flush"),
            &expand,
        ] {
            assert_eq!(of(stack), Some(2), "{stack} in\n{csv}");
        }
        // These functions may be inlined into callers, so they are anywhere below.
        let below = |caller: &str, name: &str| {
            let is_so = |stack: &str| stack.starts_with(caller) && stack.ends_with(&format!(";{name}"));
            calls.iter().filter(|(stack, _)| is_so(stack)).map(|(_, calls)| calls).sum::<u64>()
        };
        assert_eq!(below(&compress, "huffman_measure"), 2 * 2, "{csv}");
        assert_eq!([&compress, &expand].map(|in_c| below(in_c, "huffman_assign")), [2 * 2; 2], "{csv}");
        assert_eq!(below(&compress, "lz77_remember"), 2 * 32, "each byte\n{csv}");
        assert_eq!(below(&expand, "huffman_write") + below(&compress, "huffman_read"), 0, "{csv}");

        let (tree, profile) = stdout.split_once("\n\n").unwrap();
        for name in ["mixed_c::round_trip", "mixed_c::archive", "squeeze_compress"] {
            assert!(tree.lines().any(|line| line.ends_with(&format!(" {name}"))), "{name} in\n{tree}");
        }
        for name in ["mixed_c::round_trip", "mixed_c::squeeze::expand", "squeeze_expand", "bits_flush"] {
            let is_there = |line: &str| line.split_whitespace().next() == Some(name);
            assert!(profile.lines().any(is_there), "{name} in\n{profile}");
        }
    }

    #[test]
    fn the_environment_reaches_c() {
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("three-times.txt");
        fs::write(&file, "three times, three times, three times").unwrap();
        let output = run(&[&file], Some("squeeze_* kind=entry, !squeeze_bound=count"));
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{stdout}{stderr}");
        assert!(stdout.contains("37 bytes, compressed "), "{stdout}");
        assert!(number(&stderr, ["squeeze_compress", "entry"]) > 1, "{stderr}");
        assert!(!stderr.contains("squeeze_bound  "), "{stderr}");
    }
}

#[test]
#[cfg(not(probe_off))]
fn a_file_that_is_not_there_is_named() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("absent.txt");
    let output = run(&[&file], None);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).starts_with(&format!("mixed-c: can't read {}: ", file.display())));
}

#[test]
#[cfg(probe_off)]
fn says_that_it_was_built_without_probes() {
    let output = run(&[], None);
    assert_eq!(
        (output.status.code(), text(&output.stderr).as_str()),
        (Some(1), "mixed-c: this program was built without probes\n")
    );
}
