//! `top` on a terminal, which `script` of util-linux brings. However it ends, the terminal and the
//! program's text are as before.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};

use crate::program::{Folder, PROBECTL, Program, Ran, run};

/// Begins and ends the screen of a program that takes the whole terminal.
const TAKEN: &str = "\x1b[?1049h";
const GIVEN_BACK: &str = "\x1b[?1049l";
/// The function of the program.
const SHOWN: &str = "live::program::work";

/// `top` in a terminal of 80 columns.
struct Top {
    script: Child,
    keys: ChildStdin,
    /// Its output so far.
    drawn: Vec<u8>,
}

impl Top {
    /// Starts it, and waits until it shows a function. `None` without `script`.
    fn start(folder: &Folder, program: &Program) -> Option<Self> {
        if Command::new("script").arg("--version").stdout(Stdio::null()).status().is_err() {
            println!("skipped: there is no `script`");
            return None;
        }
        let line = format!("stty cols 80 rows 24; exec {} top -p {}", PROBECTL.join(" "), program.pid());
        let mut script = Command::new("script")
            .args(["-qec", &line, "/dev/null"])
            .env("XDG_RUNTIME_DIR", &folder.0)
            .env("TERM", "xterm")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let keys = script.stdin.take().unwrap();
        let (mut drawn, out) = (Vec::new(), script.stdout.as_mut().unwrap());
        while !drawn.windows(SHOWN.len()).any(|it| it == SHOWN.as_bytes()) {
            let mut bytes = [0; 4096];
            let many = out.read(&mut bytes).unwrap();
            assert_ne!(many, 0, "{}", String::from_utf8_lossy(&drawn));
            drawn.extend(&bytes[..many]);
        }
        Some(Self { script, keys, drawn })
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).and_then(|()| self.keys.flush()).unwrap();
    }

    fn ran(self) -> Ran {
        let mut output = self.script.wait_with_output().unwrap();
        drop(self.keys);
        output.stdout.splice(..0, self.drawn);
        output.into()
    }
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
    let Some(mut top) = Top::start(&folder, &program) else { return };
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
        let Some(mut top) = Top::start(&folder, &program) else { return };
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
    let Some(top) = Top::start(&folder, &program) else { return };
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
