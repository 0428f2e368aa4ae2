//! A consumer of your own: a log of the last large answers of a web server. The program attaches it
//! in code, and `PROBES` may name it, too.
//!
//! ```text
//! cargo run --example consumer
//! PROBES='consumer::answered=large(least=900)' cargo run --example consumer
//! ```
//!
//! A [`Consumer`] is called on the thread that hits the probe, with an [`Event`]: the probe's path,
//! kind and place, and the values of its fields. The values are borrowed from the caller's stack
//! for the time of the call, so this consumer formats the ones that it keeps. Its memory is
//! bounded, because it drops the oldest line. Its time is bounded, because it never waits for
//! another thread; it counts the events that it misses for that reason.

use std::collections::VecDeque;
use std::fmt::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, TryLockError};
use std::thread;

use probe_runtime::field::ValueRef;
use probe_runtime::spec::{Format, ParseError, Rendered, Reporter, Setting, register};
use probe_runtime::{Attachment, Consumer, Event, init_from_env, point, select};

/// Keeps the last events whose field `bytes` is at least `least`.
struct LargeOnes {
    least: u64,
    capacity: usize,
    lines: Mutex<VecDeque<String>>,
    seen: AtomicU64,
    missed: AtomicU64,
}

impl LargeOnes {
    fn new(least: u64, capacity: usize) -> Self {
        Self {
            least,
            capacity,
            lines: Mutex::new(VecDeque::with_capacity(capacity)),
            seen: AtomicU64::new(0),
            missed: AtomicU64::new(0),
        }
    }

    fn is_large(&self, event: &Event<'_>) -> bool {
        event.fields().any(
            |(name, value)| matches!((name, value), ("bytes", ValueRef::U64(bytes)) if bytes >= self.least),
        )
    }
}

impl Consumer for LargeOnes {
    fn hit(&self, event: &Event<'_>) {
        self.seen.fetch_add(1, Ordering::Relaxed);
        if !self.is_large(event) {
            return;
        }
        let mut lines = match self.lines.try_lock() {
            Ok(lines) => lines,
            Err(TryLockError::Poisoned(lines)) => lines.into_inner(),
            Err(TryLockError::WouldBlock) => {
                self.missed.fetch_add(1, Ordering::Relaxed);
                return;
            }
        };
        // A full log reuses the memory of its oldest line.
        let mut line =
            if lines.len() < self.capacity { String::new() } else { lines.pop_front().unwrap_or_default() };
        line.clear();
        line.push_str(event.path());
        for (name, value) in event.fields() {
            // Writing to a `String` can't fail.
            let _ = write!(line, "  {name}={value}");
        }
        lines.push_back(line);
    }
}

/// Connects the consumer to `PROBES` and its reports.
impl Reporter for LargeOnes {
    const NAME: &'static str = "large";
    const ABOUT: &'static str = "the last events with many bytes";
    const OPTIONS: &'static [&'static str] = &["least"];
    const EXAMPLE: &'static str = "least=400";

    fn from_settings(settings: &[Setting<'_>]) -> Result<Self, ParseError> {
        let least = match settings.last() {
            Some(it) => it.value().parse().map_err(|_| it.invalid_value("write a number of bytes"))?,
            None => 400,
        };
        Ok(Self::new(least, 3))
    }

    fn report(large: &Attachment<Self>, _format: Format) -> Rendered {
        (**large).to_string().into()
    }
}

impl fmt::Display for LargeOnes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "the last {} answers of {} bytes and more:", self.capacity, self.least)?;
        // A report does not wait, either: the writer may be a thread that a fork left behind.
        match self.lines.try_lock() {
            Ok(lines) => lines.iter().try_for_each(|line| writeln!(f, "  {line}"))?,
            Err(_) => writeln!(f, "  (another thread is writing)")?,
        }
        let (seen, missed) = (self.seen.load(Ordering::Relaxed), self.missed.load(Ordering::Relaxed));
        write!(f, "{seen} answers seen; {missed} large ones not kept, for another thread was writing")
    }
}

#[derive(Debug)]
enum Method {
    Get,
    Head,
}

/// Returns the length of the body, which grows with the length of the path.
fn answer(method: &Method, path: &str) -> usize {
    let body = match method {
        Method::Get => path.len() * path.len(),
        Method::Head => 0,
    };
    // A latent probe evaluates no field. Text and numbers are fields as they are; `?` uses `Debug`.
    point!("answered", ?method, path, bytes = body);
    body
}

fn serve() {
    const PATHS: [&str; 4] = ["/", "/about", "/a/picture/of/a/lighthouse.jpeg", "/films/the-tide.webm"];
    for path in PATHS.iter().cycle().take(1000) {
        answer(&Method::Get, path);
        answer(&Method::Head, path);
    }
}

fn main() -> Result<(), probe_runtime::Error> {
    register::<LargeOnes>()?;
    let _probes = init_from_env()?;
    let large = select("consumer::answered")?.attach(LargeOnes::new(400, 3))?;
    thread::scope(|scope| {
        scope.spawn(serve);
        scope.spawn(serve);
    });
    let _ = large.pause();
    println!("{}", *large);
    Ok(())
}
