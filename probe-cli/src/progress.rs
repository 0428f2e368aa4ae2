//! A line on a terminal about work that takes longer than a second.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use probe_report::ending;
use terminal_size::{Width, terminal_size_of};

use crate::text::escape;

const FIRST_AFTER: Duration = Duration::from_secs(1);
const INTERVAL: Duration = Duration::from_millis(250);

/// Shows the progress of some work as long as it lives, if stderr is a terminal.
pub struct Progress {
    done: Arc<AtomicU64>,
    /// Ends the thread that shows it, when it is dropped.
    shown: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Progress {
    /// Begins. `total` is the amount of work in any unit; 0 if it is not known.
    pub fn start(what: &str, total: u64) -> Self {
        let done = Arc::new(AtomicU64::new(0));
        let (sender, receiver) = mpsc::channel::<()>();
        let (what, counted) = (escape(what).into_owned(), Arc::clone(&done));
        let line = move |elapsed| {
            let line = line(&what, counted.load(Ordering::Relaxed), total, elapsed);
            ending(&line, width()).to_string()
        };
        let show = move || show(&receiver, (FIRST_AFTER, INTERVAL), line, &mut io::stderr());
        let shown = io::stderr().is_terminal().then(|| (sender, thread::spawn(show)));
        Self { done, shown }
    }

    /// Returns the counter of the finished work.
    pub fn done(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.done)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((sender, thread)) = self.shown.take() {
            drop(sender);
            let _ = thread.join();
        }
    }
}

/// Shows lines in place of each other, the first one `after` a time, until the sender is dropped.
/// The last one is erased then.
fn show(
    ended: &Receiver<()>,
    (after, every): (Duration, Duration),
    line: impl Fn(Duration) -> String,
    out: &mut impl Write,
) {
    const ERASE: &str = "\r\x1b[K";
    let begin = Instant::now();
    let mut wait = after;
    let mut is_shown = false;
    // Writing to a terminal that was closed fails, and nobody sees the line.
    while ended.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
        let _ = write!(out, "{ERASE}{}", line(begin.elapsed()));
        (wait, is_shown) = (every, true);
    }
    if is_shown {
        let _ = write!(out, "{ERASE}");
    }
}

/// Returns the columns for a line. It must not be broken into two, since one is erased.
fn width() -> usize {
    terminal_size_of(io::stderr()).map_or(80, |(Width(width), _)| usize::from(width)).saturating_sub(1)
}

fn line(what: &str, done: u64, total: u64, elapsed: Duration) -> String {
    let seconds = elapsed.as_secs();
    match (u128::from(done) * 100).checked_div(total.into()) {
        Some(percent) => format!("{what}: {} %, {seconds} s", percent.min(99)),
        None => format!("{what}: {seconds} s"),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Returns all that is written for work that ends with its third line, or at once.
    fn written(after: Duration, ends_at_once: bool) -> String {
        let (sender, receiver) = mpsc::channel();
        let sender = Cell::new(Some(sender).filter(|_| !ends_at_once));
        let lines = Cell::new(0);
        let line = |elapsed| {
            assert!(elapsed >= after);
            lines.set(lines.get() + 1);
            if lines.get() == 3 {
                sender.take();
            }
            format!("line {}", lines.get())
        };
        let mut out = Vec::new();
        show(&receiver, (after, Duration::from_millis(1)), line, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn lines_replace_each_other_and_the_last_one_goes() {
        let three = "\r\x1b[Kline 1\r\x1b[Kline 2\r\x1b[Kline 3\r\x1b[K";
        assert_eq!(written(Duration::from_millis(20), false), three);
    }

    /// Otherwise, this would last for a day.
    #[test]
    fn work_that_ends_soon_shows_nothing() {
        assert_eq!(written(Duration::from_secs(86_400), true), "");
    }

    #[test]
    fn a_part_is_shown_where_the_whole_is_known() {
        let three = Duration::from_secs(3);
        assert_eq!(line("reading a", 50, 200, three), "reading a: 25 %, 3 s");
        assert_eq!(line("reading a", 300, 200, three), "reading a: 99 %, 3 s");
        assert_eq!(line("reading a", 50, 0, three), "reading a: 3 s");
    }
}
