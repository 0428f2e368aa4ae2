//! `top` on a terminal. However it ends, the terminal and the program's text are as before.

use std::process::Command;

use crate::program::{Folder, Program, run};
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
    assert!(ran.out.ends_with("note: the program has ended\r\n"), "{ran:?}");
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
