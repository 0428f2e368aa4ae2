//! A small service that offers its counts and latencies to a collector, at an endpoint for
//! Prometheus.
//!
//! ```text
//! cargo run --release --example metrics                    # asks itself once, and prints the answer
//! cargo run --release --example metrics 127.0.0.1:9464     # serves; then: curl http://127.0.0.1:9464/metrics
//! ```
//!
//! `/otlp` answers with the body of a `POST` to an OpenTelemetry collector's `/v1/metrics`. A real
//! service has a server of its own, and needs only the line of `answer` that collects.

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

/// A cache of slowly loaded answers.
#[derive(Default)]
struct Store(Mutex<HashMap<u64, u64>>);

#[probe]
impl Store {
    fn get(&self, key: u64) -> u64 {
        let mut known = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        *known.entry(key).or_insert_with(|| Self::load(key))
    }

    /// Slow: counts the steps of the Collatz sequence from the key down to 1.
    fn load(key: u64) -> u64 {
        let (mut n, mut steps) = (key + 1_000_000, 0);
        while n != 1 {
            n = if n % 2 == 0 { n / 2 } else { 3 * n + 1 };
            steps += 1;
        }
        steps
    }
}

/// Runs the requests of one worker; they are the same on every run.
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
    // The headers of the request do not matter.
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

/// Sends a request like a collector.
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
            // An error of one client does not end the server.
            let _ = listener.accept().and_then(|(stream, _)| answer(stream, &exporter));
        }
    }
    for path in ["/metrics", "/otlp"] {
        // Connects before another thread accepts, so that an error here leaves no thread waiting.
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
