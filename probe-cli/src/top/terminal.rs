//! Takes the whole terminal, and restores it at the end, at an error, at a panic, and at a second
//! signal.

use std::io::{self, Stdout, stdout};
use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::terminal::{
    BeginSynchronizedUpdate, EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen,
    disable_raw_mode, enable_raw_mode,
};
use ratatui::crossterm::{execute, queue};
use ratatui::{Frame, Terminal};

/// The time for a terminal to take its last bytes, if the process is to end at once.
const RESTORE_TIMEOUT: Duration = Duration::from_millis(200);

static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// The terminal of this process.
pub struct FullScreen(Terminal<CrosstermBackend<Stdout>>);

impl FullScreen {
    /// Takes the terminal.
    ///
    /// # Errors
    /// The system's. The terminal is restored then.
    pub fn take() -> io::Result<Self> {
        let hook = panic::take_hook();
        // The message of a panic is for the restored terminal.
        panic::set_hook(Box::new(move |info| {
            restore();
            hook(info);
        }));
        // A second signal may come at any moment from here.
        IS_TAKEN.store(true, Ordering::Relaxed);
        let taken = enable_raw_mode()
            .and_then(|()| execute!(stdout(), EnterAlternateScreen))
            .and_then(|()| Terminal::new(CrosstermBackend::new(stdout())));
        taken.map(Self).inspect_err(|_| restore())
    }

    /// Draws: writes the cells that have changed. A terminal that knows synchronized updates shows
    /// them at once.
    ///
    /// # Errors
    /// The system's.
    pub fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        queue!(stdout(), BeginSynchronizedUpdate)?;
        let drawn = self.0.draw(draw).map(drop);
        execute!(stdout(), EndSynchronizedUpdate)?;
        drawn
    }

    /// Restores the terminal before the process ends, without its owner, which may wait for a
    /// terminal that takes nothing.
    pub fn restore_before_exit() {
        if !IS_TAKEN.load(Ordering::Relaxed) {
            return;
        }
        let _ = disable_raw_mode();
        let Ok(restoring) = thread::Builder::new().spawn(restore) else { return };
        let begin = Instant::now();
        while !restoring.is_finished() && begin.elapsed() < RESTORE_TIMEOUT {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for FullScreen {
    fn drop(&mut self) {
        restore();
    }
}

/// Restores the terminal, once. Writing to a closed one fails.
fn restore() {
    if IS_TAKEN.swap(false, Ordering::Relaxed) {
        let _ = disable_raw_mode();
        let _ = execute!(stdout(), EndSynchronizedUpdate, LeaveAlternateScreen, Show);
    }
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    #[ignore = "another test plays it, in a terminal"]
    fn scenario() {
        assert_eq!(probe_tests::scenario::to_play(), "panic");
        let _screen = FullScreen::take().unwrap();
        panic!("a message for people");
    }

    /// The message comes after the screen, which it would vanish with.
    #[test]
    fn a_panic_gives_it_back() {
        if Command::new("script").arg("--version").stdout(Stdio::null()).status().is_err() {
            println!("skipped: there is no `script`");
            return;
        }
        let this = env::current_exe().unwrap();
        let line = format!(
            "{} --exact --ignored --nocapture top::terminal::tests::scenario; stty -a",
            this.display()
        );
        let output = Command::new("script")
            .args(["-qec", &line, "/dev/null"])
            .env("PROBE_TEST_SCENARIO", "panic")
            .env("TERM", "xterm")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let (before, after) = text.split_once("\x1b[?1049h").unwrap();
        assert!(!before.contains("panicked"), "{text}");
        let (screen, after) = after.split_once("\x1b[?1049l\x1b[?25h").unwrap();
        assert!(!screen.contains("panicked") && after.contains("a message for people"), "{text}");
        let modes = ["icanon", "echo", "isig", "icrnl", "opost"];
        assert!(modes.iter().all(|it| after.split_whitespace().any(|word| word == *it)), "{text}");
    }
}
