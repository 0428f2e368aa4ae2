//! `audit` of this program's file, and of copies whose sites somebody has changed.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::ran::{Folder, HAS_SITES, out, run, this};

#[probe_runtime::probe]
#[inline(never)]
fn audited(number: u64) -> u64 {
    std::hint::black_box(number)
}

fn document(file: &str) -> Value {
    serde_json::from_str(&run(&["--json", "audit", file]).out).unwrap()
}

#[test]
fn each_site_is_shown() {
    assert_eq!(audited(1), 1);
    let text = out(&["audit", &this()]);
    let json = document(&this());
    let rows = json["rows"].as_array().unwrap();
    let (last, totals) = (text.lines().last().unwrap(), out(&["audit", "--quiet", &this()]));
    assert_eq!(last, "0 findings");
    assert!(text.ends_with(&totals), "{totals}");
    if !HAS_SITES {
        return;
    }
    assert_eq!(json["functions_by"], "symbols");
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["site", "in", "word", "switched", "by", "form", "state", "kind", "probe"]);
    assert_eq!(lines.len(), rows.len() + 3);
    for (line, row) in lines[1..].iter().zip(rows) {
        let (site, in_word) = (row["site"].as_u64().unwrap(), row["in_word"].as_u64().unwrap());
        assert!(in_word == site % 8 && in_word <= 3, "{row}");
        let (kind, probe) = (row["kind"].as_str().unwrap(), row["probe"].as_str().unwrap());
        let expected =
            [&format!("{site:#x}"), &in_word.to_string(), "one", "write", "jmp", "latent", kind, probe];
        assert_eq!(line[..], expected);
    }
    let own = rows.iter().filter(|row| row["probe"] == "cli::audited::audited");
    assert_eq!(own.count(), 2);
}

/// Returns the place in the file of the bytes at an address.
fn offset(file: &[u8], addr: u64) -> usize {
    let number = |at: usize, len: usize| {
        file[at..at + len].iter().rev().fold(0, |number: u64, byte| number << 8 | u64::from(*byte))
    };
    let headers = usize::try_from(number(32, 8)).unwrap();
    let segment = (0..usize::try_from(number(56, 2)).unwrap())
        .map(|at| headers + 56 * at)
        .find(|at| {
            number(*at, 4) == 1
                && (number(at + 16, 8)..number(at + 16, 8) + number(at + 32, 8)).contains(&addr)
        })
        .unwrap();
    usize::try_from(addr - number(segment + 16, 8) + number(segment + 8, 8)).unwrap()
}

#[test]
fn changed_sites_are_findings() {
    assert_eq!(audited(1), 1);
    if !HAS_SITES {
        println!("skipped: files of this build show no sites");
        return;
    }
    let rows = document(&this())["rows"].as_array().unwrap().clone();
    let entry = rows.iter().find(|row| row["probe"] == "cli::audited::audited" && row["kind"] == "entry");
    let addr = entry.unwrap()["site"].as_u64().unwrap();
    let folder = Folder::new("changed");
    let mut file = fs::read(this()).unwrap();
    let at = offset(&file, addr);
    assert_eq!(file[at..at + 5], [0x0f, 0x1f, 0x44, 0x00, 0x08]);
    file[at] = 0xcc;
    let path = folder.file("breakpoint", &file);
    let ran = run(&["audit", "-q", &path]);
    assert_eq!((ran.code, ran.err.as_str()), (1, ""));
    let end = format!(
        "1 finding\n  the site at {addr:#x}: foreign bytes cc 1f 44 00 08: the runtime would leave this site alone\n"
    );
    assert!(ran.out.ends_with(&end), "{}", ran.out);
    let json = document(&path);
    assert_eq!((&json["findings"], &json["found"][0]["site"]), (&1.into(), &addr.into()));
    let listed = out(&["list", &path, "cli::audited::audited"]);
    assert!(listed.lines().nth(1).unwrap().ends_with("  foreign"), "{listed}");
    assert!(listed.lines().nth(2).unwrap().ends_with("  latent"), "{listed}");
    file.truncate(at);
    let cut = folder.file("cut", &file);
    let ran = run(&["audit", &cut]);
    assert!(ran.code == 3 && ran.err.contains("it was cut off"), "{}", ran.err);
}

/// BOLT makes functions anew elsewhere, and renames the section of the old code. Its sites are
/// never executed: a list and an audit say so.
#[test]
fn code_that_bolt_has_left_behind_is_named() {
    if !HAS_SITES {
        return;
    }
    let folder = Folder::new("audit-bolt");
    let copy = folder.0.join("copy").display().to_string();
    let mut objcopy = Command::new("objcopy");
    objcopy.args(["--rename-section", ".text=.bolt.org.text", &this(), &copy]);
    assert!(objcopy.status().unwrap().success());
    let sites = document(&copy)["rows"].as_array().unwrap().len();
    let expected = format!(
        "{sites} sites are in code that BOLT has left behind, which is never executed: use the file from before BOLT"
    );
    assert_eq!(document(&copy)["found"][0]["problem"], expected);
    let listed = run(&["list", "--objects", &copy]);
    assert_eq!(listed.err.trim_end(), format!("note: {expected}"));
}
