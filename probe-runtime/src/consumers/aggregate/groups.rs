//! Reads the groups of all threads.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::super::buckets::values;
use super::callers::NO_ROOM;
use super::intervals::Intervals;
use super::key::WrittenKeys;
use super::table::{PLAIN, Table, range};
use super::{AggregateFunction as Function, Prepared};
use crate::engine::per_thread::Local;
use crate::engine::registry::ProbeInfo;
use crate::engine::stacks::{Callers, Rules};
use probe_lang::aggregation::Aggregation;
use probe_report::reports::{Figures, Group, Groups, Number, OpenInterval, Threads};
use probe_report::was;

/// The thread's number, and the stack of callers, in an expression.
const THREAD: &str = "thread";
const STACK: &str = "stack";

/// Merges the groups of these tables.
pub(super) fn read<'a>(
    aggregation: &Aggregation,
    prepared: &Prepared,
    tables: impl Iterator<Item = Table<'a>>,
    mut notes: Vec<String>,
) -> Groups {
    let mut read: Vec<_> = tables.flat_map(Table::read).collect();
    let names = prepared.caller_names(read.iter_mut().map(|group| &mut group.keys));
    let mut open = prepared.intervals.as_deref().map(Intervals::open).unwrap_or_default();
    let mut merged = BTreeMap::<(Option<usize>, WrittenKeys), Merged>::new();
    for mut group in read {
        let figures = figures(group.cells, prepared.is_float(), aggregation.function);
        let texts = group.keys.texts(&names);
        names.by_names(&mut group.keys);
        let merged = merged.entry((group.subject, group.keys)).or_default();
        merged.texts = texts;
        merged.figures.add(figures);
        merged.open.extend(open.remove(&group.handle).into_iter().flatten());
    }
    let names_time = aggregation.value.as_ref().and_then(|value| value.time());
    // A probe's field of that name comes first.
    let has_field = |of: Option<&ProbeInfo>, name: &str| {
        of.is_some_and(|it| it.fields().iter().any(|field| field.name() == name))
    };
    let is_time = |of: Option<&ProbeInfo>| names_time.is_some_and(|name| !has_field(of, name));
    let key_of = |name: &str| aggregation.keys.iter().position(|key| key.to_string() == name);
    let (thread, stack) = (key_of(THREAD), key_of(STACK));
    let group = |((subject, written), Merged { texts, figures, open }): ((Option<usize>, WrittenKeys), _)| {
        let of = subject.and_then(|subject| prepared.subjects.get(subject));
        Group {
            path: of.map_or("(others)", |it| it.path()).to_owned(),
            file: of.map_or("", |it| it.file()).to_owned(),
            line: of.map_or(0, ProbeInfo::line),
            is_others: of.is_none(),
            is_time: is_time(of),
            thread: thread.filter(|_| of.is_some() && !has_field(of, THREAD)),
            stack: stack.filter(|at| of.is_some() && prepared.caller_keys >> at & 1 != 0),
            keys: match of {
                Some(_) => texts,
                None => vec!["-".to_owned(); aggregation.keys.len()],
            },
            written: [&[written.shape], &written.words[..]].concat(),
            figures,
            open,
        }
    };
    let has_any = |it: &Merged| it.figures.count != 0 || !it.open.is_empty();
    let groups: Vec<Group> = merged.into_iter().filter(|(_, it)| has_any(it)).map(group).collect();
    let without_room = groups.iter().filter(|it| it.stack.is_some_and(|at| it.keys[at] == NO_ROOM));
    match without_room.map(Group::count).sum() {
        0 => (),
        hits => notes.push(format!("{} left without a stack: there are too many", was(hits, "hit"))),
    }
    if prepared.callers.as_ref().is_some_and(Callers::are_outdated) {
        notes.push("callers in libraries of late are not known: too many came and went".to_owned());
    }
    let intervals = prepared.intervals.as_deref();
    notes.extend(intervals.map(Intervals::notes).into_iter().flatten());
    let names_threads = thread.is_some() || intervals.is_some();
    let threads = if names_threads { threads(prepared) } else { Threads::default() };
    let lost = prepared.memory.lost() + intervals.map_or(0, Intervals::lost);
    Groups::new(aggregation, groups, threads, lost, notes, prepared.since.period())
}

/// A group of all threads.
#[derive(Default)]
struct Merged {
    texts: Vec<String>,
    figures: Figures,
    open: Vec<OpenInterval>,
}

fn figures(cells: &[AtomicU64], is_float: bool, function: Function) -> Figures {
    let cell = |at: usize| cells.get(at).map_or(0, |cell| cell.load(Relaxed));
    let number = |at| {
        if is_float {
            Number::Float(f64::from_bits(cell(at)))
        } else {
            Number::Int(cell(at).cast_signed().into())
        }
    };
    let range = |at: usize| {
        if function.is_of_times() {
            let values = values(at);
            (i128::from(*values.start()), i128::from(*values.end()))
        } else {
            range(at)
        }
    };
    let buckets = cells.get(PLAIN..).unwrap_or_default().iter().map(|it| it.load(Relaxed)).enumerate();
    Figures {
        count: cell(0),
        sum: number(1),
        min: number(2),
        max: number(3),
        are_bounds: false,
        buckets: buckets.filter(|(_, hits)| *hits != 0).map(|(at, hits)| (range(at), hits)).collect(),
    }
}

/// Reads the names of threads whose memory no later thread has got.
fn threads(prepared: &Prepared) -> Threads {
    let named = |local: Local<'_, Rules, AtomicU64>| {
        let (number, name) = (local.thread(), local.thread_name());
        // Meanwhile another thread may have got the memory.
        (local.thread() == number && !name.is_empty()).then_some((number, name))
    };
    Threads(prepared.memory.iter().filter_map(named).collect())
}
