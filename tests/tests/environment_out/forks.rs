//! Forked children have files of their own.

use std::path::PathBuf;

use crate::endings::FORKS;
use crate::folder::Folder;
use crate::{COUNT, hits, stderr};

/// The child's process id, which its parent has printed.
fn child(stdout: Vec<u8>) -> String {
    let stdout = String::from_utf8(stdout).unwrap();
    stdout.lines().find_map(|line| line.split("child ").nth(1)).unwrap().to_owned()
}

#[test]
fn a_forked_child_has_a_file_of_its_own() {
    for (name, out) in [("without", "@/counts.json"), ("with", "@/counts-%p.json")] {
        let folder = Folder::new(&format!("fork-{name}"));
        let output = folder.run("fork", COUNT, out);
        assert!(output.status.success(), "{output:?}");
        let child = child(output.stdout);
        let of_child = format!("counts-{child}.json");
        assert_eq!(hits(&folder.json(&of_child)), 9, "four hits before it was forked");
        let names = folder.names();
        let [of_parent] = names.iter().filter(|name| **name != of_child).collect::<Vec<_>>()[..] else {
            panic!("{names:?}");
        };
        assert_eq!(hits(&folder.json(of_parent)), 4);
        assert_eq!(of_parent == "counts.json", name == "without", "{names:?}");
    }
}

#[test]
fn a_forked_child_writes_to_its_parents_stream() {
    let folder = Folder::new("fork-stream");
    let run = |out: &str| {
        let output = folder.run("fork", COUNT, out);
        assert!(output.status.success() && stderr(&output).is_empty(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let stdout = run("/dev/stdout");
    let position = |hits: u64| stdout.find(&format!("environment_out::work  entry      1     {hits}\n"));
    assert!(position(9).unwrap() < position(4).unwrap(), "{stdout}");
    let child = run("/dev/null").lines().find_map(|line| line.split("child ").nth(1)).unwrap().to_owned();
    assert!(!PathBuf::from(format!("/dev/null-{child}")).exists());
}

#[test]
fn a_child_that_was_forked_while_another_thread_reported_reports() {
    // Also where the program reports under a lock that its own hooks take across forks.
    for scenario in ["forks while reporting", "own hooks"] {
        let folder = Folder::new(&scenario.replace(' ', "-"));
        let output = folder.run(scenario, COUNT, "@/counts.json");
        assert!(output.status.success(), "{output:?}");
        let names = folder.names();
        assert_eq!(names.len(), 1 + FORKS, "{names:?}");
        assert!(names.iter().all(|name| hits(&folder.json(name)) == 3), "{names:?}");
    }
}

#[test]
fn so_has_one_that_has_a_guard_of_its_own() {
    for (name, out) in [("without", "@/counts.json"), ("with", "@/counts-%p.json"), ("folder", "@/all/")] {
        for (scenario, of_parent) in [("fork with a guard", 4), ("fork after the guard", 3)] {
            let folder = Folder::new(&format!("{}-{name}", scenario.replace(' ', "-")));
            let output = folder.run(scenario, COUNT, out);
            assert!(output.status.success() && stderr(&output).is_empty(), "{output:?}");
            let child = child(output.stdout);
            let inside = if name == "folder" { folder.0.join("all") } else { folder.0.to_path_buf() };
            let mut hits_of: Vec<_> = std::fs::read_dir(inside)
                .unwrap()
                .map(|entry| {
                    let path = entry.unwrap().path();
                    let text = std::fs::read_to_string(&path).unwrap();
                    let is_childs =
                        path.file_name().unwrap().to_str().unwrap().contains(&format!("-{child}"));
                    let hits = if name == "folder" {
                        text.trim_end().rsplit(' ').next().unwrap().parse().unwrap()
                    } else {
                        hits(&serde_json::from_str(&text).unwrap())
                    };
                    (is_childs, hits)
                })
                .collect();
            hits_of.sort_unstable();
            assert_eq!(hits_of, [(false, of_parent), (true, 2)], "{scenario}, {out}");
        }
    }
}
