//! `cargo probe` on a workspace of somebody who does not know of probes: `theirs`.
//!
//! It has a build script, a procedural macro, a crate of 2015, one without the standard library,
//! files that its modules name and include, futures, and a release profile that aborts.

#![cfg(all(target_os = "linux", target_arch = "x86_64", not(probe_portable), not(probe_off)))]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::thread;

use probe_tests::folder::Folder;
use probe_tests::whole;
use rustix::process::{Pid, Signal};

/// Builds take all processors, and memory.
static ALONE: Mutex<()> = Mutex::new(());

struct Theirs {
    folder: Folder,
}

impl Theirs {
    fn new(name: &str) -> Self {
        let folder = Folder::new(name);
        copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/theirs"), &folder);
        Self { folder }
    }

    /// Runs cargo; with `probe` as its first word, this package's.
    fn cargo(&self, line: &str, probes: Option<&str>) -> Output {
        self.command(line).envs(probes.map(|text| ("PROBES", text))).output().unwrap()
    }

    fn command(&self, line: &str) -> Command {
        let words: Vec<_> = line.split_whitespace().collect();
        let mut command = if words[0] == "probe" {
            Command::new(env!("CARGO_BIN_EXE_cargo-probe"))
        } else {
            Command::new(env!("CARGO"))
        };
        let library = std::env::current_exe().unwrap().with_file_name("libprobe_agent.so");
        for variable in
            ["RUSTC_WORKSPACE_WRAPPER", "RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_TARGET_DIR", "PROBES"]
        {
            command.env_remove(variable);
        }
        command
            .args(words)
            .current_dir(&*self.folder)
            .env("CARGO_NET_OFFLINE", "true")
            .env("CARGO_INCREMENTAL", "1")
            .env("XDG_CACHE_HOME", Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache"))
            .env("PROBE_AGENT_LIBRARY", library)
            .env("RUST_BACKTRACE", "0");
        command
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (from, to) = (entry.as_ref().unwrap().path(), to.join(entry.unwrap().file_name()));
        if from.is_dir() {
            copy(&from, &to);
        } else {
            fs::write(to, fs::read(from).unwrap()).unwrap();
        }
    }
}

/// All files but those that cargo makes, with their contents.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("target") {
            all.extend(files(&path));
        } else if path.is_file() {
            all.insert(path.clone(), fs::read(path).unwrap());
        }
    }
    all
}

fn out(output: &Output) -> &str {
    str::from_utf8(&output.stdout).unwrap()
}

fn err(output: &Output) -> &str {
    str::from_utf8(&output.stderr).unwrap()
}

/// The rows of a table of counts: path, kind, sites, hits.
fn rows(output: &Output) -> Vec<String> {
    let is_row =
        |line: &&str| line.split_whitespace().nth(1).is_some_and(|kind| ["entry", "exit"].contains(&kind));
    err(output)
        .lines()
        .filter(is_row)
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect()
}

#[test]
fn a_program_is_as_without_probes_and_each_function_is_counted() {
    let _alone = ALONE.lock();
    let theirs = Theirs::new("as-without");
    let before = files(&theirs.folder);
    let probed = theirs.cargo("probe run -q -- boom", Some("**=count"));
    assert_eq!(files(&theirs.folder), before, "{}", err(&probed));
    // No link leads to a folder around it, or nowhere.
    let walk = Command::new("find").arg("-L").arg(&*theirs.folder).args(["-type", "l"]).output().unwrap();
    assert_eq!((err(&walk), out(&walk), walk.status.code()), ("", "", Some(0)));
    let plain = theirs.cargo("run -q -- boom", None);
    assert_eq!((out(&probed), probed.status.code()), (out(&plain), plain.status.code()), "{}", err(&probed));
    assert!(err(&plain).contains("panicked at app/src/util.rs:8:21:"), "{}", err(&plain));
    assert!(err(&probed).contains("panicked at app/src/util.rs:8:21:"), "{}", err(&probed));
    let expected = [
        "app::util::deep::down entry 1 5", "app::util::deep::down exit 1 5", "app::Thing::later entry 2 2",
        "app::Thing::later exit 1 2", "app::included entry 1 1", "app::included exit 1 1",
        "app::named entry 1 1", "app::named exit 1 1", "app::next entry 1 1", "app::next exit 1 1",
        "app::block_on entry 2 2", "app::block_on exit 1 2", "app::Thing::one_line entry 1 1",
        "app::Thing::one_line exit 1 1", "app::Thing::work entry 1 1", "app::Thing::work exit 1 1",
        "app::main entry 1 1", "app::main exit 1 1", "app::nested entry 1 1", "app::nested exit 1 1",
        "app::r#try::odd entry 1 1", "app::r#try::odd exit 1 1", "app::place entry 1 1",
        "app::place exit 1 1", "app::util::boom entry 1 1", "app::util::boom exit 1 1",
        "bare::add entry 1 1", "bare::add exit 1 1", "old::sum entry 1 1", "old::sum exit 1 1",
    ];
    let mut rows = rows(&probed);
    let mut expected = expected.map(str::to_owned).to_vec();
    rows.sort();
    expected.sort();
    assert_eq!(rows, expected, "{}", err(&probed));
}

#[test]
fn what_has_no_probe_is_named_with_its_reason() {
    let _alone = ALONE.lock();
    let theirs = Theirs::new("named");
    let explained = theirs.cargo("probe explain --offline -q", None);
    let lines: Vec<_> =
        out(&explained).lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(
        lines,
        [
            "app::Thing::n app/src/main.rs:38 one short expression; --all probes it",
            "app::Thing::short app/src/main.rs:43 the compiler refuses it: an attribute",
            "app::constant app/src/main.rs:79 a const fn: it may run in the compiler",
            "app::strict::Strict::next app/src/strict.rs:7 the compiler refuses it: custom attribute panicked",
            "old::inner::at_most old/src/inner.rs:1 no loop, and no call but in conditions; --all probes it",
        ],
        "{}",
        err(&explained)
    );
    assert!(err(&explained).contains("21 functions, 16 with a probe"), "{}", err(&explained));
    // As the program names it.
    let raw = theirs.cargo("probe list --only app::r#try::* -q", None);
    assert_eq!(out(&raw).split_whitespace().next(), Some("app::r#try::odd"), "{}", err(&raw));
    let all = theirs.cargo("probe list --all --only app::Thing::* -q", None);
    let paths: Vec<_> = out(&all).lines().map(|line| line.split_whitespace().next().unwrap()).collect();
    assert_eq!(paths, ["app::Thing::work", "app::Thing::later", "app::Thing::one_line", "app::Thing::n"]);
    // Another build has seen the file as it was.
    let line = "probe list -q -p bare --only bare::*";
    assert_eq!(out(&theirs.cargo(line, None)), "bare::add  bare/src/lib.rs:5\n");
    let text = fs::read_to_string(theirs.file("bare/src/lib.rs")).unwrap();
    fs::write(theirs.file("bare/src/lib.rs"), format!("//! A line.\n{text}")).unwrap();
    let moved = theirs.cargo(&format!("{line} --release"), None);
    assert_eq!(out(&moved), "bare::add  bare/src/lib.rs:6\n", "{}", err(&moved));
    for (only, note) in [
        (
            "app::Thing::wrok",
            "note: --only app::Thing::wrok selects no function; did you mean `app::Thing::work`",
        ),
        (
            "app::Thing::n",
            "note: no function that --only app::Thing::n selects has a probe; see `cargo probe explain`",
        ),
    ] {
        let none = theirs.cargo(&format!("probe build -q --only {only}"), None);
        assert!(none.status.success() && err(&none).contains(note), "{}", err(&none));
    }
}

#[test]
fn a_program_that_is_ended_tells_its_counts_and_no_lock_file_is_left() {
    let _alone = ALONE.lock();
    let theirs = Theirs::new("ended");
    assert!(theirs.cargo("probe build -q", None).status.success());
    let hang = |signal: Signal| {
        let mut child = theirs
            .command("probe count --select app::main -q -- hang")
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let pid = Pid::from_child(&child);
        while !theirs.file("running").exists() {
            assert!(child.try_wait().unwrap().is_none());
            thread::yield_now();
        }
        fs::remove_file(theirs.file("running")).unwrap();
        assert!(theirs.file("Cargo.lock").exists());
        let cargo = fs::read_to_string(format!("/proc/{0}/task/{0}/children", child.id())).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
        (child, cargo)
    };
    // Passed on to the program, which tells its counts before it ends.
    let ended = hang(Signal::TERM).0.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(128 + 15), "{}", err(&ended));
    assert_eq!(rows(&ended), ["app::main entry 1 1"], "{}", err(&ended));
    assert!(!theirs.file("Cargo.lock").exists());
    // Nothing can be passed on: another process takes the file away once cargo has ended.
    let (killed, cargo) = hang(Signal::KILL);
    for child in cargo.split_whitespace() {
        let pid = Pid::from_raw(child.parse().unwrap()).unwrap();
        // The process that takes the file away ignores nothing: it has to live.
        if fs::read_link(format!("/proc/{child}/exe")).unwrap().file_name().unwrap() != "cargo-probe" {
            rustix::process::kill_process(pid, Signal::TERM).unwrap();
        }
    }
    drop(killed.wait_with_output().unwrap());
    while theirs.file("Cargo.lock").exists() {
        thread::yield_now();
    }
}

#[test]
fn own_tools_of_the_user_are_called() {
    let _alone = ALONE.lock();
    let theirs = Theirs::new("tools");
    let tool = |name: &str, calls: &str| {
        let file = theirs.file(name);
        fs::write(&file, format!("#!/bin/sh\necho >> {}.log\nexec {calls}\n", file.display())).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        file
    };
    let tested = theirs
        .command("probe test --workspace")
        .env("RUSTDOC", tool("documenter", "rustdoc \"$@\""))
        .env("RUSTC_WRAPPER", tool("wrapper", "\"$@\""))
        .output()
        .unwrap();
    assert!(
        out(&tested).contains("test old/src/lib.rs - (line 3) ... ok"),
        "{}{}",
        out(&tested),
        err(&tested)
    );
    assert!(theirs.file("documenter.log").exists() && theirs.file("wrapper.log").exists());
}

/// Settings of the workspace choose another target, and a runner of their own. The target needs no
/// other C library.
#[test]
fn settings_of_the_user_are_followed_or_named() {
    let _alone = ALONE.lock();
    let theirs = Theirs::new("settings");
    fs::create_dir(theirs.file(".cargo")).unwrap();
    let settings = |text: &str| fs::write(theirs.file(".cargo/config.toml"), text).unwrap();
    for runner in ["\"env X=1\"", "[\"env\", \"X=1\"]"] {
        settings(&format!("[target.x86_64-unknown-linux-gnu]\nrunner = {runner}\n"));
        let counted = theirs.cargo("probe count --select bare::** --example shown -q", None);
        let told = (out(&counted), rows(&counted));
        assert_eq!(told, ("1\n2\n", vec!["bare::add entry 1 2".to_owned(), "bare::add exit 1 2".to_owned()]));
    }
    settings("[target.x86_64-unknown-linux-gnu]\nrunner = \"env X=1\"\n");
    let spaced = theirs.command("probe run -q --target-dir").arg("a b").output().unwrap();
    let said = "probectl` has a space, and cargo's settings have a `runner` that is a string";
    assert!(!spaced.status.success() && err(&spaced).contains(said), "{}", err(&spaced));
    settings("[build]\ntarget = \"x86_64-unknown-none\"\n");
    if !theirs.cargo("build -q -p bare", None).status.success() {
        return println!("left out: the target x86_64-unknown-none is not installed");
    }
    let explained = theirs.cargo("probe explain --all -q -p bare", None);
    let reason = "built for x86_64-unknown-none, by cargo's settings; give --target x86_64-unknown-none";
    assert_eq!(out(&explained), format!("bare::add  bare/src/lib.rs:5  {reason}\n"), "{}", err(&explained));
    assert!(err(&explained).contains("note: no function has a probe; see `cargo probe explain`"));
}

#[test]
fn tests_examples_and_releases_are_built_with_probes() {
    let _alone = ALONE.lock();
    let theirs = Theirs::new("built");
    let tested = theirs.cargo("probe test --workspace --features app/louder", None);
    assert!(tested.status.success(), "{}{}", out(&tested), err(&tested));
    for line in ["test tests::works ... ok", "test old/src/lib.rs - (line 3) ... ok"] {
        assert!(out(&tested).contains(line), "{line}: {}", out(&tested));
    }
    // Each process has a file of its own.
    let recorded = theirs.cargo("probe record test --workspace --features app/louder --tests", None);
    assert!(recorded.status.success(), "{}{}", out(&recorded), err(&recorded));
    let files = fs::read_dir(theirs.file("app")).unwrap().map(|file| file.unwrap().file_name());
    let names = files.filter_map(|name| name.into_string().ok());
    let written: Vec<_> = names.filter(|name| name.ends_with(".probetrace")).collect();
    let number = written[0].strip_prefix("trace-").and_then(|name| name.strip_suffix(".probetrace"));
    assert!(number.is_some_and(|it| it.parse::<u32>().is_ok()) && written.len() == 1, "{written:?}");
    let example = theirs.cargo("probe count --select bare::** --example shown -q", None);
    assert_eq!(
        (out(&example), rows(&example)),
        ("1\n2\n", vec!["bare::add entry 1 2".to_owned(), "bare::add exit 1 2".to_owned()])
    );
    let traced = theirs.cargo("probe trace --select bare::** --example shown -q", None);
    assert_eq!(out(&traced), "1\n2\n");
    assert!(err(&traced).contains("slow: bare::add took "), "{}", err(&traced));
    let released = theirs.cargo("probe count --select old::** --release -q", None);
    assert_eq!(released.status.code(), Some(7), "{}", err(&released));
    assert!(rows(&released).contains(&"old::sum entry 1 1".to_owned()), "{}", err(&released));
}

/// Cargo's folders, and the compiler's libraries, change with their versions.
#[test]
fn the_next_toolchain_builds_with_probes() {
    let _alone = ALONE.lock();
    if !whole::has("the nightly toolchain") {
        return;
    }
    let is_there = Command::new("rustup").args(["run", "nightly", "cargo", "-V"]).output();
    if !is_there.is_ok_and(|it| it.status.success()) {
        return println!("left out: there is no nightly toolchain");
    }
    let theirs = Theirs::new("nightly");
    let mut command = theirs.command("probe count --select bare::** --example shown -q");
    let counted = command.env("CARGO", "cargo").env("RUSTUP_TOOLCHAIN", "nightly").output().unwrap();
    assert_eq!(rows(&counted), ["bare::add entry 1 2", "bare::add exit 1 2"], "{}", err(&counted));
}

#[test]
fn only_what_changed_is_built_again() {
    let _alone = ALONE.lock();
    let theirs = Theirs::new("again");
    assert!(theirs.cargo("probe build -q", None).status.success());
    let built = |line: &str| -> Vec<String> {
        let output = theirs.cargo(line, None);
        assert!(output.status.success(), "{}", err(&output));
        let compiled = err(&output).lines().filter_map(|line| line.trim_start().strip_prefix("Compiling "));
        compiled.map(|line| line.split(' ').next().unwrap().to_owned()).collect()
    };
    assert_eq!(built("probe build"), [""; 0]);
    let text = fs::read_to_string(theirs.file("old/src/inner.rs")).unwrap();
    fs::write(theirs.file("old/src/inner.rs"), text.replace("100", "101")).unwrap();
    assert_eq!(built("probe build"), ["old", "app"]);
    let text = fs::read_to_string(theirs.file("app/gen/named.rs")).unwrap();
    fs::write(theirs.file("app/gen/named.rs"), text.replace("{n}", "<{n}>")).unwrap();
    assert_eq!(built("probe build"), ["app"]);
    // A file that is no Rust, which the program includes.
    fs::write(theirs.file("data/text"), "other").unwrap();
    assert_eq!(built("probe build"), ["app"]);
    let run = theirs.cargo("probe run -q", None);
    for line in ["4 other 5", "app/gen/named.rs:2 <1>"] {
        assert!(out(&run).contains(line), "{line}: {}", out(&run));
    }
}

#[test]
fn mistakes_are_told_as_cargo_tells_them() {
    let _alone = ALONE.lock();
    let theirs = Theirs::new("mistakes");
    let text = fs::read_to_string(theirs.file("bare/src/lib.rs")).unwrap();
    fs::write(theirs.file("bare/src/lib.rs"), text.replace("sum += 1;", "sum += \"1\";")).unwrap();
    let [plain, probed] = ["build -q", "probe build -q"].map(|line| theirs.cargo(line, None));
    // Before that it may say that it builds the runtime.
    assert_eq!(probed.status.code(), plain.status.code());
    assert!(err(&probed).ends_with(err(&plain)), "{}{}", err(&probed), err(&plain));
    assert!(err(&plain).contains("bare/src/lib.rs:8:13"), "{}", err(&plain));
    for (line, said) in [
        ("probe run --only a[", "a["),
        ("probe count --select a[", "a["),
        ("probe build --no-such-option", "unexpected argument '--no-such-option' found"),
        ("probe build --manifest-path none/Cargo.toml", "none/Cargo.toml"),
    ] {
        let failed = theirs.cargo(line, None);
        assert!(!failed.status.success() && err(&failed).contains(said), "{line}: {}", err(&failed));
    }
}

/// The lines of `tally`: a function, its number of calls, and for `timed` the nanoseconds inside of
/// the call and around it.
fn tally(output: &Output) -> Vec<(String, Vec<u64>)> {
    let calls = out(output).lines().map(|line| {
        let (name, numbers) = line.split_once(' ').unwrap();
        (name.to_owned(), numbers.split(' ').map(|it| it.parse().unwrap()).collect())
    });
    calls.collect()
}

/// The words of a table's row behind the name of a function of `tally`.
fn row<'a>(table: &'a str, name: &str) -> Vec<&'a str> {
    let name = format!("tally::{name}");
    let rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let rows = rows.filter(|words| words.first() == Some(&name.as_str())).map(|words| words[1..].to_vec());
    let rows: Vec<_> = rows.collect();
    assert_eq!(rows.len(), 1, "{name}: {table}");
    rows[0].clone()
}

#[test]
fn numbers_are_those_that_a_program_counts_itself() {
    let _alone = ALONE.lock();
    let theirs = Theirs::new("tally");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_cargo-probe"), theirs.file("probectl")).unwrap();
    // They end within a millisecond, and within a tenth of a second.
    for arguments in ["20", "30 50"] {
        let run = |command: &str| {
            let mut cargo = theirs.command(&format!("probe {command} --example tally -q -- {arguments}"));
            // Tables of times leave out places with little of it.
            let output =
                cargo.envs((command == "calls").then_some(("PROBES_OUT", "calls.json"))).output().unwrap();
            assert_eq!(output.status.code(), Some(5), "{command}: {}", err(&output));
            output
        };
        // `is_shown`: whether a command's output has this number of calls of a function.
        let check = |command: &str, is_shown: &dyn Fn(&str, &str, u64) -> bool| {
            let output = run(command);
            let tally = tally(&output);
            assert_eq!(tally.len(), 3 + usize::from(arguments.contains(' ')), "{}", out(&output));
            for (name, numbers) in tally {
                let shown = err(&output);
                assert!(is_shown(shown, &name, numbers[0]), "{command}, {name} {numbers:?}: {shown}");
            }
            output
        };
        check("count --select kind=entry", &|table, name, calls| row(table, name)[2] == calls.to_string());
        check("count --select kind=exit", &|table, name, calls| row(table, name)[2] == calls.to_string());
        // The first columns are there if the kernel has sampled the program.
        check("profile", &|table, name, calls| {
            row(table, name).windows(2).any(|words| words == [&calls.to_string(), "exact"])
        });
        let has_first = |table: &str, name: &str, calls: u64| row(table, name)[0] == calls.to_string();
        check("perf", &has_first);
        check("latency", &has_first);
        // A line for each call, then a table.
        check("trace", &|text, name, calls| {
            let (lines, table) = text.split_once("function ").unwrap();
            let line = format!("slow: tally::{name} took ");
            lines.matches(&line).count() as u64 == calls && has_first(table, name, calls)
        });
        check("record", &|_, name, calls| {
            let mut report = Command::new(theirs.file("probectl"));
            let report = report.arg("report").arg(theirs.file("trace.probetrace")).output().unwrap();
            has_first(out(&report), name, calls)
        });
        check("calls", &|_, name, calls| {
            let report = fs::read_to_string(theirs.file("calls.json")).unwrap();
            let report: serde_json::Value = serde_json::from_str(&report).unwrap();
            let rows = report["rows"].as_array().unwrap().iter();
            let rows = rows.filter(|row| row["function"] == format!("tally::{name}"));
            rows.map(|row| row["calls"].as_u64().unwrap()).sum::<u64>() == calls
        });
    }
    // The probes stand between the two readings of each pair of the program's own clock.
    let timed =
        theirs.command("probe latency --example tally -q -- 3 50").env("PROBES_OUT", "times.json").output();
    let tally = tally(&timed.unwrap());
    let [1, within, around] = tally[3].1[..] else { panic!("{tally:?}") };
    let report = fs::read_to_string(theirs.file("times.json")).unwrap();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    let row =
        report["rows"].as_array().unwrap().iter().find(|row| row["function"] == "tally::timed").unwrap();
    let shown = row["total_ns"].as_u64().unwrap();
    // Both clocks are the processor's counter, but each has a scale of its own.
    let slack = around / 1000;
    assert!((within - slack..=around + slack).contains(&shown), "{within} {shown} {around}");
}

/// The terminal is that of `script`, which ends as its command does.
#[test]
fn top_ends_as_the_program_does_and_leaves_its_last_table() {
    if Command::new("script").arg("--version").stdout(Stdio::null()).status().is_err() {
        println!("skipped: there is no `script`");
        return;
    }
    let _alone = ALONE.lock();
    let theirs = Theirs::new("top");
    let top = |arguments: &str| {
        let probe = theirs.command(&format!("probe top -q {arguments}"));
        let words = probe.get_args().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" ");
        let mut script = Command::new("script");
        for (name, value) in probe.get_envs() {
            match value {
                Some(value) => script.env(name, value),
                None => script.env_remove(name),
            };
        }
        let line = format!("stty cols 200 rows 50; {} {words}", env!("CARGO_BIN_EXE_cargo-probe"));
        script.args(["-qec", &line, "/dev/null"]).env("TERM", "xterm").env("SHELL", "/bin/sh");
        script.current_dir(&*theirs.folder).stdin(Stdio::piped()).output().unwrap()
    };
    let plain = theirs.cargo("run --example tally -q -- 3", None);
    let ended = top("--example tally -- 3");
    assert_eq!((ended.status.code(), plain.status.code()), (Some(5), Some(5)), "{}", out(&ended));
    // Behind the screen, which the terminal forgets.
    let (_, table) = out(&ended).split_once("\x1b[?1049l").unwrap();
    assert!(table.contains("note: the program has failed: exit status: 5"), "{table}");
    for (name, numbers) in tally(&plain) {
        let row = row(table, &name);
        // Behind its number of calls is its place.
        assert_eq!(row[row.len() - 2], numbers[0].to_string(), "{name}: {table}");
    }
    let ended = top("-- abort");
    assert_eq!(ended.status.code(), Some(128 + 6), "{}", out(&ended));
}

/// A program with this root, in a folder of its own.
fn program(theirs: &Theirs, name: &str, manifest: &str, root: &str) {
    let folder = theirs.file(name);
    fs::create_dir_all(folder.join("src")).unwrap();
    let package = format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n");
    fs::write(folder.join("Cargo.toml"), format!("{package}\n[workspace]\n{manifest}")).unwrap();
    let file = if root.contains("fn main") { "main.rs" } else { "lib.rs" };
    fs::write(folder.join("src").join(file), root).unwrap();
}

/// The columns of the row of a function: allocations, bytes, frees, freed bytes, growth.
fn memory_of(output: &Output, function: &str) -> Option<String> {
    let mut rows = err(output).lines().filter_map(|line| line.split_once(char::is_whitespace));
    let (_, row) = rows.find(|(name, _)| name.ends_with(function))?;
    Some(row.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Ten blocks of a hundred bytes, without and with an allocator of the program's own: one under a
/// condition, whose name the program uses, one under a condition that doesn't hold, and one of a
/// dependency.
#[test]
fn what_functions_allocate_is_counted() {
    const HOLD: &str = "fn hold(bytes: usize) -> usize { let held: Vec<u8> = std::hint::black_box(vec![1; bytes]);\n\
        held.len() }\n";
    const CALLS: &str = "let sum: usize = (0..10).map(|_| hold(100)).sum();";
    const COUNTING: &str = "use std::alloc::{GlobalAlloc, Layout, System};\n\
        use std::sync::atomic::{AtomicU64, Ordering::Relaxed};\n\
        struct Counting(AtomicU64);\n\
        unsafe impl GlobalAlloc for Counting {\n\
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 { self.0.fetch_add(1, Relaxed); unsafe { System.alloc(layout) } }\n\
        unsafe fn dealloc(&self, block: *mut u8, layout: Layout) { unsafe { System.dealloc(block, layout) } }\n\
        }\n\
        #[cfg_attr(unix,\n  global_allocator)] static COUNTING: Counting = Counting(AtomicU64::new(0));\n";
    let _alone = ALONE.lock();
    let theirs = Theirs::new("memory");
    let safe = "#![deny(warnings)]\n#![forbid(unsafe_code)]\n";
    program(
        &theirs,
        "plain",
        "",
        &format!("{safe}{HOLD}fn main() {{ {CALLS} println!(\"{{sum}} {{}}\", line!()); }}"),
    );
    let count = "let before = COUNTING.0.load(Relaxed);";
    let counted = "println!(\"{sum} {} {}\", COUNTING.0.load(Relaxed) - before, line!());";
    let own = format!("#![deny(warnings)]\n{COUNTING}{HOLD}fn main() {{ {count} {CALLS} {counted} }}");
    program(&theirs, "own", "", &own);
    let unmet = "#[cfg(any())]\n#[global_allocator] static OTHER: Missing = Missing;\n";
    program(
        &theirs,
        "unmet",
        "",
        &format!("{safe}{unmet}{HOLD}fn main() {{ {CALLS} println!(\"{{sum}}\"); }}"),
    );
    program(&theirs, "held", "", "#[global_allocator] static HELD: std::alloc::System = std::alloc::System;");
    let of_dependency = format!("use held as _;\n{HOLD}fn main() {{ {CALLS} println!(\"{{sum}}\"); }}");
    program(&theirs, "other", "[dependencies]\nheld = { path = \"../held\" }", &of_dependency);
    let run = |name: &str, line: &str| {
        let mut command = theirs.command(line);
        command.current_dir(theirs.file(name)).output().unwrap()
    };
    let (ten, note) = ("10 1000 10 1000 0", "note: the allocator of src/main.rs has no probes");
    for (name, printed) in [("plain", "1000 "), ("own", "1000 10 "), ("unmet", "1000\n")] {
        let output = run(name, "probe memory --all -q");
        let plain = run(name, "run -q");
        assert!(out(&plain).starts_with(printed) && out(&plain) == out(&output), "{}", err(&output));
        assert_eq!(memory_of(&output, "hold").as_deref(), Some(ten), "{}", err(&output));
        assert!(!err(&output).contains(note), "{}", err(&output));
    }
    // C's own allocator counts, which gives a few bytes more.
    let without = run("other", "probe memory --all -q");
    let blocks = Some("10 1040 10 1040 0");
    assert_eq!(
        (out(&without), memory_of(&without, "hold").as_deref()),
        ("1000\n", blocks),
        "{}",
        err(&without)
    );
    let whole = format!("{note}: it is that of held; try --deps 'held::**'");
    assert!(err(&without).contains(&whole), "{}", err(&without));
    let with = run("other", "probe memory --all --deps held::** -q");
    assert_eq!((out(&with), memory_of(&with, "hold").as_deref()), ("1000\n", Some(ten)), "{}", err(&with));
    assert!(!err(&with).contains(note), "{}", err(&with));
    // Other commands build without.
    let plain = run("plain", "probe count --all -q");
    assert!(!err(&plain).contains("memory::"), "{}", err(&plain));
}
