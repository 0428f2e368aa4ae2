//! The same probes as tools of others see them. A tool that is not there, or may not do its work
//! here, is left out, and the test says why.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use probe_tests::bpftrace;
use probe_tests::fixture::Linker;
use probe_tests::folder::Folder;
use probe_tests::whole;

use super::{RELEASE, by};

fn program() -> PathBuf {
    RELEASE.path("usdt")
}

/// Runs a tool on the program; `None` if there is no such tool.
fn run(tool: &str, arguments: &[&str]) -> Option<String> {
    match Command::new(tool).args(arguments).output() {
        Ok(output) => {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            Some(text(&output.stdout) + &text(&output.stderr))
        }
        Err(error) => {
            println!("skipped: {tool}: {error}");
            None
        }
    }
}

const MIDDLE: &str = "net__middle";

#[test]
fn readelf_shows_arguments() {
    let program = program();
    let Some(text) = run("readelf", &["--notes", "--wide", program.to_str().unwrap()]) else { return };
    let lines: Vec<_> = text.lines().map(str::trim).collect();
    let at = lines.iter().position(|line| *line == format!("Name: {MIDDLE}")).expect("the probe");
    assert_eq!(lines[at - 1].split_once("Provider: ").map(|it| it.1), Some("usdt"), "{text}");
    assert_eq!(lines[at + 2], "Arguments: 8@%rdi -4@%rsi 8@%rdx 8@%rcx 4@%r8");
}

#[test]
fn gdb_lists_probes() {
    let program = program();
    let arguments = ["-nx", "-batch", "-ex", "info probes stap usdt", program.to_str().unwrap()];
    let Some(text) = run("gdb", &arguments) else { return };
    let row = |name: &str| text.lines().filter(|line| line.split_whitespace().nth(2) == Some(name)).count();
    assert_eq!((row(MIDDLE), row("net__mixed__entry")), (1, 2), "{text}");
}

/// Whichever linker has made the file, and whichever tool has changed it.
#[test]
fn gdb_and_bpftrace_list_probes_of_files_that_tools_have_changed() {
    let changes: [(&str, &[&str]); 4] = [
        ("strip", &[]),
        ("patchelf", &["--set-rpath", "$ORIGIN/a/path/that/is/too/long/for/the/room/that/the/linker/left"]),
        ("objcopy", &["--compress-debug-sections"]),
        ("eu-strip", &[]),
    ];
    let linkers = [Linker::Gold, Linker::Mold, Linker::Lld, Linker::Gnu];
    let mut files = whole::pairs(&linkers, &changes);
    if !whole::has("each change of files of each linker for gdb and bpftrace") {
        // The other two are built for nothing else.
        files.truncate(2);
    }
    let (folder, has_bpftrace) = (Folder::new("changed"), !is_missing());
    for (linker, (tool, arguments)) in files {
        let Some(built) = by(linker).map(|it| it.build("usdt")) else { continue };
        let copy = folder.join(format!("{linker:?}-{tool}"));
        fs::copy(built.path("usdt"), &copy).unwrap();
        let path = copy.to_str().unwrap();
        let Some(said) = run(tool, &[arguments, &[path]].concat()) else { continue };
        let whole = format!("{linker:?} {tool}: {said}");
        if let Some(text) = run("gdb", &["-nx", "-batch", "-ex", "info probes stap usdt", path]) {
            let rows = text.lines().filter(|line| line.split_whitespace().nth(2) == Some(MIDDLE));
            assert_eq!(rows.count(), 1, "{whole}{text}");
        }
        if has_bpftrace {
            let text = run("bpftrace", &["-l", &format!("usdt:{path}:*")]).expect("bpftrace is there");
            assert!(text.lines().any(|line| line == format!("usdt:{path}:usdt:{MIDDLE}")), "{whole}{text}");
        }
    }
}

/// gdb stops at the NOP, and reads the arguments.
#[test]
fn gdb_reads_arguments() {
    let program = program();
    let shown = "printf \"%d %d %d\\n\", (int)$_probe_argc, (int)$_probe_arg1, (int)$_probe_arg3";
    let arguments = [
        "-nx",
        "-batch",
        "-ex",
        "break -probe-stap usdt:net__middle",
        "-ex",
        "run",
        "-ex",
        shown,
        "-ex",
        "kill",
        program.to_str().unwrap(),
    ];
    let Some(text) = run("gdb", &arguments) else { return };
    if text.contains("ptrace: Operation not permitted") {
        println!("skipped: gdb may not trace here");
        return;
    }
    assert!(text.lines().any(|line| line == "5 -5 5"), "{text}");
}

/// perf reads the file into a folder, and lists the folder.
#[test]
fn perf_lists_probes() {
    let (program, folder) = (program(), Folder::new("perf"));
    let of = |arguments: &[&str]| {
        let arguments = [&["--buildid-dir", folder.to_str().unwrap()], arguments].concat();
        run("perf", &arguments)
    };
    if of(&["buildid-cache", "--add", program.to_str().unwrap()]).is_none() {
        return;
    }
    let text = of(&["list", "sdt"]).expect("perf is there");
    if !text.contains("SDT event") {
        println!("skipped: this perf lists no SDT events: {text}");
        return;
    }
    assert!(text.contains(&format!("sdt_usdt:{MIDDLE} ")), "{text}");
    // As the kernel is told of it.
    let text = of(&["probe", "--definition", &format!("sdt_usdt:{MIDDLE}")]).expect("perf is there");
    let arguments = "arg1=%di:u64 arg2=%si:s32 arg3=%dx:u64 arg4=%cx:u64 arg5=%r8:u32";
    assert!(text.lines().any(|line| line.ends_with(arguments)), "{text}");
}

/// tplist of bcc, under the name that Debian gives it.
#[test]
fn tplist_lists_probes() {
    let program = program();
    let path = program.to_str().unwrap();
    let Some(text) = run("tplist-bpfcc", &["-l", path]) else { return };
    assert!(text.lines().any(|line| line.ends_with(&format!("usdt:{MIDDLE}"))), "{text}");
}

#[test]
fn bpftrace_lists_probes() {
    if is_missing() {
        return;
    }
    let program = program();
    let path = program.to_str().unwrap();
    let text = run("bpftrace", &["-l", &format!("usdt:{path}:*")]).expect("bpftrace is there");
    assert!(text.lines().any(|line| line == format!("usdt:{path}:usdt:{MIDDLE}")), "{text}");
}

fn is_missing() -> bool {
    let missing = bpftrace::missing();
    missing.iter().for_each(|why| println!("skipped: {why}"));
    missing.is_some()
}

/// Every hit, and the values of all sizes and signs, by a program of the kernel.
#[test]
fn bpftrace_reads_arguments() {
    if is_missing() {
        return;
    }
    let program = program();
    let path = program.to_str().unwrap();
    let of = |name: &str| format!("usdt:{path}:usdt:{name}");
    let script = [
        format!("{} {{ @hits = count(); @sum = sum(arg0); }}", of(MIDDLE)),
        format!(
            "{} /arg0 == 0/ {{ printf(\"middle %d %s %d\\n\", arg1, str(arg2, arg3), arg4); }}",
            of(MIDDLE)
        ),
        format!("{} /arg0 == 3/ {{ printf(\"returned %d\\n\", arg0); }}", of("net__returned__exit")),
        format!("{} {{ @narrow[arg0, arg1, arg2, arg3] = count(); }}", of("net__narrow")),
        format!("{} {{ @wide[arg0, arg1] = count(); }}", of("net__wide")),
        format!("{} {{ @twice = sum(arg1); }}", of("net__twice__exit")),
        format!("{} {{ @copies = count(); }}", of("net__mixed__entry")),
    ]
    .join(" ");
    let arguments = ["-e", &script, "-c", &format!("{path} 100")];
    let text = run("bpftrace", &arguments).expect("bpftrace is there");
    for line in [
        "@hits: 100",
        "@sum: 4950",
        "middle -5 hello 7",
        "returned 3",
        "@narrow[-7, -300, 120, 1]: 100",
        "@wide[-9223372036854775808, -1]: 100",
        "@twice: 42",
        "@copies: 200",
    ] {
        assert!(text.lines().any(|it| it == line), "no `{line}` in:\n{text}");
    }
}
