//! What a fleet's collector asks for: counts and latencies of a small service, at an endpoint for Prometheus.
//!
//! ```text
//! cargo run --release --example metrics                    # asks itself once, and prints the answer
//! cargo run --release --example metrics 127.0.0.1:9464     # serves; then: curl http://127.0.0.1:9464/metrics
//! ```
//!
//! `/otlp` answers with what is to be sent by `POST` to an OpenTelemetry collector's `/v1/metrics`. A service has its own server, and needs the
//! one line of `answer` that collects.

use std::collections::HashMap;
use std::env;
use std::error::Error;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use probe_runtime::metrics::{CONTENT_TYPE, Exporter};
use probe_runtime::{Count, Latency, probe, select};

const WORKERS: u64 = 4;
const REQUESTS: u64 = 10_000;
const KEYS: u64 = 1_000;

/// Answers from memory what it has loaded once.
#[derive(Default)]
struct Store(Mutex<HashMap<u64, u64>>);

#[probe]
impl Store {
    fn get(&self, key: u64) -> u64 {
        let mut known = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        *known.entry(key).or_insert_with(|| Self::load(key))
    }

    /// Slow: as many steps as the key asks for, until it is down to 1.
    fn load(key: u64) -> u64 {
        let (mut n, mut steps) = (key + 1_000_000, 0);
        while n != 1 {
            n = if n % 2 == 0 { n / 2 } else { 3 * n + 1 };
            steps += 1;
        }
        steps
    }
}

/// The requests of one worker; the same on every run.
fn work(store: &Store, worker: u64) -> u64 {
    let mut state = worker + 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % KEYS
    };
    (0..REQUESTS / WORKERS).map(|_| store.get(next())).max().unwrap_or_default()
}

/// Answers one request.
fn answer(mut stream: TcpStream, exporter: &Exporter) -> io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let mut lines = BufReader::new(&stream).lines();
    let request = lines.next().transpose()?.unwrap_or_default();
    // What else the request says does not matter.
    while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
    let (status, content_type, body) = match request.split(' ').nth(1) {
        Some("/metrics") => ("200 OK", CONTENT_TYPE, exporter.collect().to_prometheus()),
        Some("/otlp") => {
            ("200 OK", "application/json", exporter.collect().to_otlp(&[("service.name", "metrics")]))
        }
        _ => ("404 Not Found", "text/plain", String::new()),
    };
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}

/// Asks as a collector does.
fn ask(mut stream: TcpStream, path: &str) -> io::Result<String> {
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

fn main() -> Result<(), Box<dyn Error>> {
    let exporter = Exporter::with_bounds([1, 2, 5, 10, 100, 1_000, 10_000].map(Duration::from_micros));
    let probes = select("metrics::Store::*")?;
    let _hits = exporter.watch(select("metrics::Store::* kind=entry")?.attach(Count::new())?);
    let _latency = exporter.watch(probes.attach(Latency::new())?);

    let address = env::args().nth(1);
    let listener = TcpListener::bind(address.as_deref().unwrap_or("127.0.0.1:0"))?;
    let store = Store::default();
    thread::scope(|scope| {
        (0..WORKERS).for_each(|worker| {
            let store = &store;
            scope.spawn(move || work(store, worker));
        });
    });
    if address.is_some() {
        println!("http://{}/metrics", listener.local_addr()?);
        loop {
            // A client that goes away is its own affair.
            let _ = listener.accept().and_then(|(stream, _)| answer(stream, &exporter));
        }
    }
    for path in ["/metrics", "/otlp"] {
        // Connected before somebody waits for it: an error here leaves nobody waiting.
        let stream = TcpStream::connect(listener.local_addr()?)?;
        let text = thread::scope(|scope| {
            let answered = scope.spawn(|| answer(listener.accept()?.0, &exporter));
            let text = ask(stream, path);
            answered.join().expect("it does not panic").and(text)
        })?;
        println!("{text}\n");
    }
    Ok(())
}
