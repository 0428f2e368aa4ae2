//! The whole terminal, until it is given back: at the end, at an error, and at a panic.

use std::io::{self, Stdout, stdout};
use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};

/// Whether the terminal is taken.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// The terminal of this process.
pub struct FullScreen(pub Terminal<CrosstermBackend<Stdout>>);

impl FullScreen {
    /// Takes the terminal.
    ///
    /// # Errors
    /// The system's. The terminal is as before then.
    pub fn take() -> io::Result<Self> {
        let hook = panic::take_hook();
        // The message of a panic is for the restored terminal.
        panic::set_hook(Box::new(move |info| {
            restore();
            hook(info);
        }));
        enable_raw_mode()?;
        IS_TAKEN.store(true, Ordering::Relaxed);
        let taken = execute!(stdout(), EnterAlternateScreen)
            .and_then(|()| Terminal::new(CrosstermBackend::new(stdout())));
        taken.map(Self).inspect_err(|_| restore())
    }
}

impl Drop for FullScreen {
    fn drop(&mut self) {
        restore();
    }
}

/// Gives the terminal back, once. One that was closed takes nothing.
fn restore() {
    if IS_TAKEN.swap(false, Ordering::Relaxed) {
        let _ = disable_raw_mode();
        let _ = execute!(stdout(), LeaveAlternateScreen, Show);
    }
}
