//! `top`: the functions of a running program on the whole terminal.

use std::io::{self, IsTerminal};
use std::process::ExitStatus;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::measure::start_detached;
use crate::args::Top;
use crate::live::{ChildProgram, Stop, failure_note};
use crate::output::{Failure, Output};
use crate::terminal_width::terminal_columns;
use crate::top::{FullScreen, Key, Poller, Query, View, draw, draw_last};

/// The time between two looks at keys, answers and signals.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// The time for the program to make all latent. It does so by itself when the connection ends.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);
/// The time between two looks at a program that is about to end.
const EXIT_INTERVAL: Duration = Duration::from_millis(2);
/// Rows of a page.
const PAGE_ROWS: isize = 20;

pub(super) fn run(args: &Top, is_json: bool) -> Result<Output, Failure> {
    if is_json || !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        let into = if is_json { "has no JSON" } else { "needs a terminal" };
        return Err(Failure::Usage(format!(
            "top {into}; use `probectl count --every 1s` or `probectl latency --every 1s`"
        )));
    }
    let stop = Stop::on_signals()?;
    let mut program = start_detached(&args.target, &stop)?;
    // The thread that asks may wait for an answer until this process ends.
    let started = program.take_child();
    stop.before_exit(FullScreen::restore_before_exit);
    let poller = Poller::start(program, args.selector.clone());
    let screen =
        FullScreen::take().map_err(|error| Failure::Input(format!("the terminal can't be used: {error}")));
    let shown = screen.and_then(|screen| run_screen(screen, &poller, &stop));
    let reason = poller.finish(EXIT_TIMEOUT);
    let last = shown?;
    let ended = started.filter(|_| last.is_some()).and_then(|it| wait(it, &stop));
    let failed = ended.and_then(failure_note);
    let out = last.map_or_else(String::new, |mut view| draw_last(&mut view, terminal_columns()));
    Ok(Output { out, ended, ..Output::notes(reason.into_iter().chain(failed).collect()) })
}

/// Waits for the end of the program, which has ended the connection, or for a signal.
fn wait(mut program: ChildProgram, stop: &Stop) -> Option<ExitStatus> {
    loop {
        let ended = program.exit_status();
        if ended.is_some() || stop.is_set() {
            return ended;
        }
        thread::sleep(EXIT_INTERVAL);
    }
}

/// Shows answers and takes keys, until somebody ends it or the connection has ended. Returns what
/// is known in the end, unless somebody has ended it.
fn run_screen(mut screen: FullScreen, poller: &Poller, stop: &Stop) -> Result<Option<View>, Failure> {
    // A terminal that was closed has no reader.
    let closed = |_| Failure::Closed;
    let mut view = View::new();
    let keys = keys();
    let (mut is_new, mut shown) = (true, Vec::new());
    while !view.has_ended && !stop.is_set() {
        match poller.latest() {
            Ok(Some(snapshot)) => {
                view.take(snapshot);
                is_new = true;
            }
            Ok(None) => (),
            Err(()) => return Ok(Some(view)),
        }
        if is_new {
            screen.draw(|frame| draw(&mut view, frame)).map_err(closed)?;
            if view.visible != shown {
                shown.clone_from(&view.visible);
                poller.send(Query::Look(shown.clone()));
            }
        }
        let pressed = match keys.recv_timeout(POLL_INTERVAL) {
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return Err(Failure::Closed),
            Ok(pressed) => Some(pressed),
        };
        is_new = pressed.is_some();
        if let Some(query) = pressed.flatten().and_then(|key| view.press(key)) {
            poller.send(query);
        }
    }
    Ok(None)
}

/// Starts a thread that takes keys, and `None` for another size of the terminal. On a terminal that
/// was closed, `crossterm` reads without end: so no other thread waits for it, and it ends with the
/// process.
fn keys() -> Receiver<Option<Key>> {
    let (sender, keys) = mpsc::channel();
    thread::spawn(move || {
        while let Ok(event) = event::read() {
            let key = if let Event::Key(pressed) = event { key(pressed) } else { None };
            if sender.send(key).is_err() {
                break;
            }
        }
    });
    keys
}

fn key(pressed: KeyEvent) -> Option<Key> {
    if pressed.kind == KeyEventKind::Release {
        return None;
    }
    let has_control = pressed.modifiers.contains(KeyModifiers::CONTROL);
    Some(match pressed.code {
        KeyCode::Char('c') if has_control => Key::Interrupt,
        KeyCode::Char(_) if has_control => return None,
        KeyCode::Char(c) => Key::Char(c),
        KeyCode::Up => Key::Move(-1),
        KeyCode::Down => Key::Move(1),
        KeyCode::PageUp => Key::Move(-PAGE_ROWS),
        KeyCode::PageDown => Key::Move(PAGE_ROWS),
        KeyCode::Home => Key::First,
        KeyCode::End => Key::Last,
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Escape,
        KeyCode::Backspace => Key::Backspace,
        _ => return None,
    })
}
