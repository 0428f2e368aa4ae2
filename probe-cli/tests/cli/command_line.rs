//! Help, mistakes, and what shells and manuals get.

use std::fs::File;
use std::io::Read;
use std::process::{Command, Stdio};

use clap::CommandFactory;
use probe_cli::args::Arguments;

use crate::ran::{Folder, fails, out, run, this};

#[test]
fn help_names_all_commands_and_exit_codes() {
    let help = out(&["help"]);
    assert!(help.contains("Usage: probectl [OPTIONS] <COMMAND>"), "{help}");
    assert!(help.contains("Exit codes:\n  0  done; watch also"), "{help}");
    let command = Arguments::command();
    let all: Vec<_> = command.get_subcommands().map(|it| (it.get_name(), it.get_about().unwrap())).collect();
    assert!(all.len() > 20, "{all:?}");
    let width = all.iter().map(|(name, _)| name.len()).max().unwrap();
    // A long line continues below its text.
    let help = help.replace(&format!("\n{:1$}", "", width + 4), " ");
    for (name, about) in all {
        let line = format!("\n  {name:width$}  {about}\n");
        assert!(help.contains(&line), "{line}: {help}");
        assert!(out(&["help", name]).contains(&format!("Usage: probectl {name}")), "{name}");
    }
    assert!(out(&["--version"]).starts_with("probectl 0."));
}

#[test]
fn mistakes_are_explained() {
    let text = fails(2, &["lsit", "x"]);
    assert!(text.contains("unrecognized subcommand 'lsit'") && text.contains("'list'"), "{text}");
    assert!(fails(2, &["list"]).contains("<FILE|PID>"));
    assert!(fails(2, &["count", "**"]).contains("<--pid <PID>|--name <NAME>|CMD>"));
    assert!(fails(2, &["count", "**", "-p", "1", "-n", "app"]).contains("cannot be used with"));
    assert!(fails(2, &["count", "**", "-p", "1", "--for", "5"]).contains("write `500ms`, `10s`"));
    assert!(fails(3, &["status", "-p", "4194305"]).contains("there is no process 4194305"));
    assert!(fails(2, &[]).contains("Usage: probectl"));
    let text = fails(2, &["diff", "a", "b", "--fail", "x"]);
    assert!(text.contains("`x` is no percentage; write `10%` or `2.5%`"), "{text}");
    let text = fails(2, &["list", &this(), "net::*, kind=entrance"]);
    assert_eq!(
        text,
        "error: malformed selector, column 14: `entrance` is not a kind; there are entry, exit, point, drop, \
         suspend, resume and replace\n  net::*, kind=entrance\n               ^\n"
    );
    assert_eq!(fails(2, &["man", "lst"]), "error: there is no command `lst`; see `probectl help`\n");
}

#[test]
fn files_that_can_not_be_read_are_explained() {
    let folder = Folder::new("unread");
    let none = folder.0.join("none").display().to_string();
    assert_eq!(
        fails(3, &["list", &none]),
        format!("error: {none} can't be read: No such file or directory (os error 2)\n")
    );
    let path = folder.0.display().to_string();
    assert_eq!(fails(3, &["audit", &path]), format!("error: {path} can't be read: it is a folder\n"));
    assert_eq!(fails(3, &["report", &path]), format!("error: {path} is a folder; name the traces in it\n"));
    let text = folder.file("text", "some text that is long enough");
    assert_eq!(
        fails(3, &["list", &text]),
        format!("error: {text} is no ELF file; give an executable or a shared object (ELF)\n")
    );
    assert_eq!(fails(3, &["list", "/dev/zero"]), "error: /dev/zero can't be read: it is no regular file\n");
    // The open of a pipe that nobody writes to would wait for ever.
    let pipe = folder.0.join("pipe").display().to_string();
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let refused = format!("error: {pipe} can't be read: it is no regular file\n");
    for arguments in [&["list", &*pipe][..], &["audit", &pipe], &["report", &pipe], &["diff", &pipe, &pipe]] {
        assert_eq!(fails(3, arguments), refused, "{arguments:?}");
    }
    assert_eq!(fails(3, &["convert", &pipe, "out.json"]), refused);
}

#[test]
fn shells_and_manuals_know_the_commands() {
    let command = Arguments::command();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = out(&["completions", shell]);
        for it in command.get_subcommands() {
            assert!(script.contains(it.get_name()), "{shell}: {}", it.get_name());
        }
    }
    let page = out(&["man"]);
    assert!(page.contains(".TH probectl 1") && page.contains("Exit codes:"), "{page}");
    let page = out(&["man", "diff"]);
    assert!(page.contains(".TH probectl-diff 1") && page.contains("fail"), "{page}");
}

/// Other shells may be missing, and so may this one.
#[test]
fn bash_reads_its_completions() {
    let folder = Folder::new("bash");
    let script = folder.file("probectl.bash", out(&["completions", "bash"]));
    let Ok(read) = Command::new("bash").args(["-n", &script]).output() else {
        println!("skipped: there is no bash");
        return;
    };
    assert!(read.status.success() && read.stderr.is_empty(), "{read:?}");
    // The first word of a command line is a command.
    let line = format!(
        "source {script}; COMP_WORDS=(probectl sna); COMP_CWORD=1; _probectl probectl sna probectl; \
         echo ${{COMPREPLY[@]}}"
    );
    let completed = Command::new("bash").args(["-c", &line]).output().unwrap();
    assert_eq!(String::from_utf8(completed.stdout).unwrap(), "snapshot\n", "{line}");
}

/// A flag without effect would be a mistake that nobody sees.
#[test]
fn commands_without_documents_refuse_the_flag() {
    for (arguments, message) in [
        (&["completions", "bash"][..], "completions are a script for a shell; leave `--json` out"),
        (&["man"], "a manual page is no document; leave `--json` out"),
        (&["run", "true"], "all output of `run` is the program's own; leave `--json` out"),
        (
            &["top", "-p", "1"],
            "top has no JSON; use `probectl count --every 1s` or `probectl latency --every 1s`",
        ),
    ] {
        assert_eq!(fails(2, &[&["--json"], arguments].concat()), format!("error: {message}\n"));
        assert!(!out(&[arguments[0], "--help"]).contains("--json"), "{arguments:?}");
    }
}

#[test]
fn control_characters_never_reach_a_terminal() {
    let folder = Folder::new("control");
    let path = folder.file("\x1b]0;title\x07", "no ELF file at all");
    let text = fails(3, &["list", &path]);
    assert!(text.contains("\\u{1b}]0;title\\u{7} is no ELF file"), "{text}");
    assert!(!text.contains('\x1b'));
}

/// A reader that ends early, as `head` does, is no error.
#[test]
fn a_closed_pipe_is_no_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_probectl"))
        .args(["completions", "bash"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut text = String::new();
    child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!((child.wait().unwrap().code(), text.as_str()), (Some(0), ""));
}

/// A full disk is one.
#[test]
fn an_output_that_can_not_be_written_is_an_error() {
    let Ok(full) = File::options().write(true).open("/dev/full") else {
        println!("skipped: there is no /dev/full");
        return;
    };
    let output = Command::new(env!("CARGO_BIN_EXE_probectl")).arg("man").stdout(full).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(text.starts_with("error: stdout can't be written: No space left"), "{text}");
}

#[test]
fn the_doctor_looks_at_this_machine() {
    let ran = run(&["doctor"]);
    assert!(ran.code == 0 && ran.err.is_empty(), "{ran:?}");
    let names: Vec<_> = ran.out.lines().map(|line| line.split("  ").next().unwrap()).collect();
    assert_eq!(names[..2], ["check", "system"]);
    for name in ["self-test", "perf events", "ptrace", "uprobes", "user namespaces", "runtime folder"] {
        assert!(names.contains(&name), "{name}: {names:?}");
    }
    assert!(ran.out.contains("runtime folder: log in with"), "{}", ran.out);
    let json: serde_json::Value = serde_json::from_str(&out(&["doctor", "--json"])).unwrap();
    assert_eq!((&json["schema"], &json["command"]), (&1.into(), &"doctor".into()));
    assert_eq!(json["rows"][0]["check"], "system");
}
