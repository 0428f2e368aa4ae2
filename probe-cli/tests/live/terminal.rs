//! A terminal for `probectl`: `script` of util-linux brings it, and `vt100` keeps its screen.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use vt100::Parser;

use crate::program::{Folder, PROBECTL, Ran, until};

/// Columns and rows.
pub type Size = (u16, u16);

/// The terminals that tests look at.
pub const SMALL: Size = (80, 24);
pub const LARGE: Size = (200, 50);

/// The time for a screen to become as it should be, on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A command in a terminal of its own.
pub struct Terminal {
    pub script: Child,
    keys: ChildStdin,
    shown: Arc<Mutex<Shown>>,
    reader: JoinHandle<()>,
}

/// All that the command has written, and the screen that this makes.
struct Shown {
    text: Vec<u8>,
    screen: Parser,
}

impl Terminal {
    /// Starts `probectl` with these arguments, as a shell reads them.
    pub fn probectl(folder: &Folder, size: Size, arguments: &str) -> Option<Self> {
        Self::start(folder, size, &format!("exec {} {arguments}", PROBECTL.join(" ")))
    }

    /// Starts a shell's line. `None` without `script`.
    pub fn start(folder: &Folder, (columns, rows): Size, line: &str) -> Option<Self> {
        if Command::new("script").arg("--version").stdout(Stdio::null()).status().is_err() {
            println!("skipped: there is no `script`");
            return None;
        }
        let mut script = Command::new("script")
            .args(["-qec", &format!("stty cols {columns} rows {rows}; {line}"), "/dev/null"])
            .env("XDG_RUNTIME_DIR", &folder.0)
            .env("TERM", "xterm")
            .env("SHELL", "/bin/sh")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let keys = script.stdin.take().unwrap();
        let [rows, columns] = [rows, columns].map(|it| it.try_into().unwrap());
        let screen = Parser::new(rows, columns, 0);
        let shown = Arc::new(Mutex::new(Shown { text: Vec::new(), screen }));
        let (mut out, of_reader) = (script.stdout.take().unwrap(), Arc::clone(&shown));
        let reader = thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(many @ 1..) = out.read(&mut bytes) {
                let mut shown = of_reader.lock().unwrap();
                shown.text.extend(&bytes[..many]);
                shown.screen.process(&bytes[..many]);
            }
        });
        Some(Self { script, keys, shown, reader })
    }

    pub fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).and_then(|()| self.keys.flush()).unwrap();
    }

    /// Returns the lines of the screen, without spaces at their ends, nor empty ones at its end.
    pub fn screen(&self) -> String {
        let shown = self.shown.lock().unwrap();
        let screen = shown.screen.screen();
        let lines: Vec<_> =
            screen.rows(0, screen.size().1.get()).map(|it| it.trim_end().to_owned()).collect();
        lines.join("\n").trim_end().to_owned() + "\n"
    }

    /// Returns all that was written so far.
    pub fn written(&self) -> Vec<u8> {
        self.shown.lock().unwrap().text.clone()
    }

    /// Waits until the screen is as it should be, or for some seconds.
    pub fn becomes(&self, mut is_so: impl FnMut(&str) -> bool) -> bool {
        let begin = Instant::now();
        loop {
            match is_so(&self.screen()) {
                false if begin.elapsed() < PATIENCE => thread::sleep(Duration::from_millis(5)),
                is_so => return is_so,
            }
        }
    }

    /// Waits until the screen is as it should be.
    #[track_caller]
    pub fn until(&self, is_so: impl FnMut(&str) -> bool) {
        assert!(self.becomes(is_so), "the screen does not become so:\n{}", self.screen());
    }

    /// Waits for the end. Returns all that was written.
    pub fn ran(self) -> Ran {
        let mut output = self.script.wait_with_output().unwrap();
        drop(self.keys);
        self.reader.join().unwrap();
        output.stdout = std::mem::take(&mut self.shown.lock().unwrap().text);
        output.into()
    }

    /// Waits for the end. Returns the last screen.
    pub fn last(mut self) -> String {
        self.script.wait().unwrap();
        until(|| self.reader.is_finished());
        self.screen()
    }
}
