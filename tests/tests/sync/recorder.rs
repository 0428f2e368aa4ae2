//! A record of the hits of all threads, which others can wait for.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::{Condvar, Mutex};
use std::thread::{self, ScopedJoinHandle};

use probe_runtime::{Aggregate, Attachment, Consumer, Event, Kind, Latency, select};
use probe_tests::futures::sign;

/// Hits, as `thread +name field=value`. A test's own thread is `a`. The fields are those whose
/// values are the same in each run.
#[derive(Default)]
pub struct Recorder {
    hits: Mutex<Vec<String>>,
    changed: Condvar,
}

impl Consumer for Recorder {
    fn hit(&self, event: &Event<'_>) {
        let thread = thread::current();
        let thread = thread.name().filter(|name| name.len() == 1).unwrap_or("a");
        let name = event.path().rsplit("::").next().unwrap();
        let mut hit = format!("{thread} {}{name}", sign(event.kind()));
        for (field, value) in event.fields().filter(|(field, _)| !matches!(*field, "future" | "name" | "at"))
        {
            write!(hit, " {field}={value}").unwrap();
        }
        self.hits.lock().unwrap().push(hit);
        self.changed.notify_all();
    }
}

impl Recorder {
    pub fn attached(selector: &str) -> Attachment<Self> {
        select(selector).unwrap().attach(Self::default()).unwrap()
    }

    /// Waits for a hit that begins so.
    pub fn wait_for(&self, hit: &str) {
        let hits = self.hits.lock().unwrap();
        drop(self.changed.wait_while(hits, |hits| !hits.iter().any(|it| it.starts_with(hit))).unwrap());
    }

    /// Returns the hits, of one thread or of all.
    pub fn of(&self, thread: &str) -> Vec<String> {
        self.hits.lock().unwrap().iter().filter(|hit| hit.starts_with(thread)).cloned().collect()
    }
}

/// Beginnings and ends of holds, as `+1` and `-1`, and `~1` if the end is not seen. Each hold has
/// the number of its beginning, or `?` if none was seen.
#[derive(Default)]
pub struct Holds(Mutex<State>);

#[derive(Default)]
struct State {
    begun: usize,
    under_way: HashMap<usize, usize>,
    hits: Vec<String>,
}

impl Consumer for Holds {
    fn hit(&self, event: &Event<'_>) {
        let State { begun, under_way, hits } = &mut *self.0.lock().unwrap();
        let hold = event.future().unwrap();
        let number = match event.kind() {
            Kind::Entry => {
                *begun += 1;
                under_way.insert(hold, *begun);
                Some(*begun)
            }
            Kind::Exit | Kind::Drop => under_way.remove(&hold),
            _ => return,
        };
        let number = number.map_or_else(|| "?".to_owned(), |it| it.to_string());
        hits.push(format!("{}{number}", sign(event.kind())));
    }
}

impl Holds {
    pub fn attached(selector: &str) -> Attachment<Self> {
        select(selector).unwrap().attach(Self::default()).unwrap()
    }

    pub fn of_all(&self) -> Vec<String> {
        self.0.lock().unwrap().hits.clone()
    }
}

/// Starts the thread `b`.
pub fn thread_b<'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    body: impl FnOnce() + Send + 'scope,
) -> ScopedJoinHandle<'scope, ()> {
    thread::Builder::new().name("b".to_owned()).spawn_scoped(scope, body).unwrap()
}

/// Returns the calls, polls and hits without a partner of each function.
pub fn calls(latency: &Latency) -> Vec<(String, u64, u64, u64)> {
    let latencies = latency.latencies();
    let rows = latencies.iter().map(|it| {
        let path = it.function().path().trim_start_matches("probe_sync::").to_owned();
        let unpaired = it.unpaired();
        (path, it.calls(), it.polls(), unpaired.total() + unpaired.cancelled + unpaired.pending)
    });
    let mut rows: Vec<_> = rows.filter(|row| row.1 + row.3 > 0).collect();
    rows.sort();
    rows
}

/// Returns the groups' keys, counts and sums, as text.
pub fn groups(aggregate: &Aggregate) -> Vec<(Vec<String>, u64, String)> {
    let groups = aggregate.groups();
    let mut rows: Vec<_> =
        groups.iter().map(|it| (it.keys().to_vec(), it.count(), it.sum().to_string())).collect();
    rows.sort_by(|a, b| a.0.cmp(&b.0));
    rows
}
