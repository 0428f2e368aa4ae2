//! `top` on a terminal. However it ends, the terminal and the program's text are as before.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use probe_protocol::Client;

use crate::program::{Folder, PROBECTL, Program, SCENARIO, run, this, until};
use crate::terminal::{SMALL, Terminal};

/// Begins and ends the screen of a program that takes the whole terminal.
const TAKEN: &str = "\x1b[?1049h";
const GIVEN_BACK: &str = "\x1b[?1049l";
/// The function of the program.
const SHOWN: &str = "live::program::work";

/// Starts `top`, and waits until it shows a function.
fn start(folder: &Folder, program: &Program) -> Option<Terminal> {
    let top = Terminal::probectl(folder, SMALL, &format!("top -p {}", program.pid()))?;
    top.until(|screen| screen.contains(SHOWN));
    Some(top)
}

/// Returns the process id of `top`.
fn client(program: &Program) -> u32 {
    let mut client = 0;
    program.until(|status| {
        client = status.attachments.first().map_or(0, |it| it.client);
        client != 0
    });
    client
}

#[test]
fn keys_measure_and_quit() {
    let folder = Folder::new("top");
    let mut program = Program::start(&folder);
    let Some(mut top) = start(&folder, &program) else { return };
    top.press("A");
    program.until(|status| status.attachments.iter().any(|it| it.spec == "**=latency"));
    top.press("\r");
    program.until(|status| status.attachments.iter().any(|it| it.spec == "**=call-tree"));
    top.press("\x1b");
    program.until(|status| status.attachments.len() == 2);
    top.press("D");
    program.until(|status| status.attachments.is_empty());
    assert!(!crate::program::out(&folder, &["list", &program.pid()]).contains("active"));
    top.press("e");
    program.until(|status| !status.attachments.is_empty());
    top.press("q");
    let ran = top.ran();
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let (before, after) = ran.out.split_once(TAKEN).unwrap();
    assert!(before.is_empty() && after.contains(SHOWN), "{ran:?}");
    let (_, after) = after.split_once(GIVEN_BACK).unwrap();
    // The cursor is shown again, and nothing more.
    assert!(after.contains("\x1b[?25h") && !after.contains("live"), "{ran:?}");
    program.is_as_before();
}

#[test]
fn each_end_gives_the_terminal_back() {
    let folder = Folder::new("top-ends");
    let mut program = Program::start(&folder);
    for end in ["Ctrl-C", "-TERM", "-HUP", "-INT", "killed"] {
        let Some(mut top) = start(&folder, &program) else { return };
        let client = client(&program).to_string();
        match end {
            "Ctrl-C" => top.press("\x03"),
            // The terminal goes, and with it both of its ends.
            "killed" => top.script.kill().unwrap(),
            signal => {
                assert!(Command::new("kill").args([signal, &client]).status().unwrap().success());
            }
        }
        let ran = top.ran();
        assert!(end == "killed" || ran.code == Some(0), "{end}: {ran:?}");
        assert!(end == "killed" || ran.out.contains(GIVEN_BACK), "{end}: {ran:?}");
        program.until(|status| status.attachments.is_empty());
        program.is_as_before();
        program = Program::start(&folder);
    }
    let Some(top) = start(&folder, &program) else { return };
    program.kill();
    let ran = top.ran();
    assert!(ran.code == Some(0) && ran.out.contains(GIVEN_BACK), "{ran:?}");
    let (_, table) = ran.out.split_once("note: the program has ended\r\n").unwrap();
    assert!(table.lines().nth(2).is_some_and(|it| it.contains("rate /s")), "{ran:?}");
}

/// A second signal ends it at once, as when its terminal takes nothing.
#[test]
fn two_signals_give_the_terminal_back() {
    let folder = Folder::new("top-twice");
    let mut program = Program::start(&folder);
    for signals in [["INT", "TERM"], ["TERM", "HUP"]] {
        let line = format!("{} top -p {}; echo code $?; stty -a", PROBECTL.join(" "), program.pid());
        let Some(terminal) = Terminal::start(&folder, SMALL, &line) else { return };
        terminal.until(|screen| screen.contains(SHOWN));
        let client = client(&program);
        let both = signals.map(|it| format!("kill -{it} {client}")).join("; ");
        // It may have ended by the first one.
        Command::new("sh").args(["-c", &both]).stderr(Stdio::null()).status().unwrap();
        let ran = terminal.ran();
        let (_, after) = ran.out.split_once(GIVEN_BACK).unwrap();
        // The second one may have come after the end.
        assert!(["code 130\r\n", "code 0\r\n"].iter().any(|it| after.contains(it)), "{ran:?}");
        let words: Vec<_> = after.split_whitespace().collect();
        assert!(words.contains(&"icanon") && words.contains(&"echo"), "{ran:?}");
        program.is_as_before();
    }
}

/// The shell that runs a script has no probes. The program that it has started is asked, and ends
/// with `top`, also if it gives no answer, and by a second signal.
#[test]
fn what_a_script_has_started_ends_with_it() {
    let folder = Folder::new("top-script");
    let (script, ids) = (folder.0.join("script"), folder.0.join("ids"));
    let line = format!(
        "#!/bin/sh\necho $$ > {ids}\n{} {SCENARIO} & echo $! >> {ids}\nwait\nsleep 1000\n",
        this().display(),
        ids = ids.display()
    );
    fs::write(&script, line).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    for ends in ["q", "STOP", "INT TERM HUP"] {
        let line =
            format!("PROBE_TEST_SCENARIO=serve-on exec {} top -- {}", PROBECTL.join(" "), script.display());
        let Some(mut top) = Terminal::start(&folder, SMALL, &line) else { return };
        top.until(|screen| screen.contains(SHOWN));
        let pids = fs::read_to_string(&ids).unwrap();
        let pids: Vec<u32> = pids.lines().map(|it| it.parse().unwrap()).collect();
        let mut asked = Client::connect(pids[1]).unwrap();
        let client = asked.status().unwrap().attachments[0].client;
        if ends == "STOP" {
            // It answers nothing any more.
            let pid = pids[1].to_string();
            assert!(Command::new("kill").args(["-STOP", &pid]).status().unwrap().success());
        }
        if ["q", "STOP"].contains(&ends) {
            top.press("q");
        } else {
            let all = ends.split(' ').map(|it| format!("kill -{it} {client}")).collect::<Vec<_>>().join(";");
            // It may have ended by the second one.
            Command::new("sh").args(["-c", &all]).stderr(Stdio::null()).status().unwrap();
        }
        assert!(top.ran().out.contains(GIVEN_BACK));
        let runs =
            |pid: &u32| fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|it| !it.contains(") Z "));
        until(|| !pids.iter().any(runs));
    }
}

#[test]
fn without_a_terminal_it_says_what_to_use() {
    let folder = Folder::new("top-pipe");
    for (arguments, problem) in
        [(&["top", "-p", "1"][..], "needs a terminal"), (&["--json", "top", "-p", "1"], "has no JSON")]
    {
        let ran = run(&folder, arguments);
        let expected = format!(
            "error: top {problem}; use `probectl count --every 1s` or `probectl latency --every 1s`\n"
        );
        assert_eq!((ran.code, ran.err), (Some(2), expected));
    }
}
