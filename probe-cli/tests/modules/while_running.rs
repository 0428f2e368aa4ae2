//! Modules of a running program: switched while it works, and in plugins that it loads.

use std::fs;

use probe_tests::folder::Folder;

use crate::program::{Served, build, storm};

fn served(folder: &Folder) -> Served<'_> {
    let plugin = build(folder, "plugin.c", &["-shared", "-fPIC", "-Wl,-z,lazy"], "plugin.so");
    Served::start(folder, &storm(folder), &plugin)
}

#[test]
fn words_are_as_they_were_once_nobody_listens() {
    let folder = Folder::new("toggled");
    let mut served = served(&folder);
    assert_eq!(served.ask("p"), "latent");
    for _ in 0..20 {
        // It works while both commands run.
        served.tell("w");
        served.probectl("enable", &["--keep", "lock::**, io::**, memory::** = latency"]);
        served.probectl("disable", &[]);
        assert_eq!(served.ask("p"), "done");
        assert_eq!(served.answered(), "latent");
    }
    served.probectl("enable", &["--keep", "memory::malloc"]);
    assert_eq!(served.ask("p"), "active");
    assert_eq!(served.ask("w"), "done");
    let report = served.probectl("disable", &[]);
    assert!(report.contains("memory::malloc") && report.contains("8000"), "{report}");
    assert_eq!(served.ask("p"), "latent");
    let rest = served.end();
    assert!(rest.contains("memory::malloc 168000\n"), "{rest}");
}

#[test]
fn a_plugin_that_comes_later_is_armed_by_the_next_operation() {
    let folder = Folder::new("plugged");
    let mut served = served(&folder);
    served.probectl("enable", &["--keep", "memory::malloc kind=entry"]);
    assert_eq!(served.ask("l"), "done");
    // It finds the plugin, and the next one what its words would be bound to.
    (0..2).for_each(|_| _ = served.probectl("list", &["memory::malloc"]));
    assert_eq!(served.ask("x"), "done");
    let report = served.probectl("disable", &[]);
    assert!(report.lines().any(|line| line.ends_with(" 100")), "{report}");
    served.end();
}

/// A word that other code has changed meanwhile is left alone. The function there is then the one
/// whose calls are counted.
#[test]
fn words_of_others_are_left_alone() {
    let folder = Folder::new("foreign");
    let flags = ["-O1", "-pthread", "-fno-plt", "-Wl,-z,norelro"];
    let program = build(&folder, "storm.c", &flags, "foreign");
    let mut served = Served::start(&folder, &program, &program);
    served.probectl("enable", &["--keep", "memory::malloc"]);
    assert_eq!([served.ask("p"), served.ask("o"), served.ask("p")], ["active", "done", "other"]);
    served.probectl("disable", &[]);
    assert_eq!(served.ask("p"), "other");
    served.probectl("enable", &["--keep", "memory::malloc kind=entry"]);
    assert_eq!([served.ask("p"), served.ask("w")], ["active", "done"]);
    let report = served.probectl("disable", &[]);
    assert!(report.contains("8000"), "{report}");
    assert_eq!(served.ask("p"), "other");
    served.end();
}

#[test]
fn a_list_of_all_probes_has_modules_if_they_were_asked_for() {
    let folder = Folder::new("all");
    let served = served(&folder);
    let all = served.probectl("list", &[]);
    for path in ["lock::mutex_lock", "io::read", "memory::malloc"] {
        assert!(all.contains(path), "{all}");
    }
    assert!(fs::metadata(folder.join("latent-probes")).is_ok());
    served.end();
}
