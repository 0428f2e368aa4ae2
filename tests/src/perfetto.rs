//! The events of a `.pftrace`, read without Perfetto's own definitions.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

/// The kind of events that begin a slice.
pub const BEGIN: u64 = 1;
/// The kind of events that end one.
pub const END: u64 = 2;

/// The kind of events of one moment.
pub const INSTANT: u64 = 3;

/// An event of a `.pftrace`.
#[derive(Debug)]
pub struct Event {
    /// [`BEGIN`], [`END`], [`INSTANT`], or another number.
    pub kind: u64,
    /// The track's number.
    pub track: u64,
    /// In nanoseconds.
    pub time: u64,
    /// Arguments that are unsigned numbers.
    pub numbers: Vec<u64>,
    /// Whether hits were lost before it, which it counts.
    pub is_after_loss: bool,
}

/// A field of a message: its number, its value, its bytes.
type Field<'a> = (u64, u64, &'a [u8]);

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let (mut value, mut shift) = (0, 0);
    loop {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 127) << shift;
        shift += 7;
        if byte & 128 == 0 {
            return Some(value);
        }
    }
}

/// Returns the next field of a message; `None` at its end, or where it is not whole.
fn field<'a>(bytes: &mut &'a [u8]) -> Option<Field<'a>> {
    let key = varint(bytes)?;
    let (length, value) = match key & 7 {
        0 => return Some((key >> 3, varint(bytes)?, &[])),
        1 => (8, 0),
        2 => (varint(bytes)?, 0),
        other => panic!("no field of this format has wire type {other}"),
    };
    let (content, rest) = bytes.split_at_checked(usize::try_from(length).unwrap())?;
    *bytes = rest;
    Some((key >> 3, value, content))
}

fn fields(mut bytes: &[u8]) -> Vec<Field<'_>> {
    std::iter::from_fn(|| field(&mut bytes)).collect()
}

fn event(packet: &[u8]) -> Option<Event> {
    let mut event = Event { kind: 0, track: 0, time: 0, numbers: Vec::new(), is_after_loss: false };
    let mut content = None;
    for (number, value, bytes) in fields(packet) {
        match number {
            8 => event.time = value,
            11 => content = Some(bytes),
            42 => event.is_after_loss = value == 1,
            _ => (),
        }
    }
    for (number, value, bytes) in fields(content?) {
        match number {
            4 => event.numbers.extend(fields(bytes).iter().filter(|it| it.0 == 3).map(|it| it.1)),
            9 => event.kind = value,
            11 => event.track = value,
            _ => (),
        }
    }
    Some(event)
}

/// Returns the events of the packets that are whole.
#[must_use]
pub fn events(path: &Path) -> Vec<Event> {
    let bytes = fs::read(path).unwrap_or_default();
    fields(&bytes).iter().filter_map(|(_, _, packet)| event(packet)).collect()
}

/// The thread is on a processor.
pub const RUNNING: u64 = 3;
/// The thread is blocked.
pub const SLEEPING: u64 = 4;
/// The thread has ended.
pub const DEAD: u64 = 7;
/// The thread is gone, and another one may get its number.
pub const DESTROYED: u64 = 8;

/// A change of a thread's state.
#[derive(Debug)]
pub struct State {
    /// The system's id of the thread.
    pub thread: u64,
    /// In nanoseconds.
    pub time: u64,
    /// [`RUNNING`], [`SLEEPING`], or another number.
    pub state: u64,
}

fn state(packet: &[u8]) -> Option<State> {
    let (mut state, mut content) = (State { thread: 0, time: 0, state: 0 }, None);
    for (number, value, bytes) in fields(packet) {
        match number {
            8 => state.time = value,
            117 => content = Some(bytes),
            _ => (),
        }
    }
    for (number, value, _) in fields(content?) {
        match number {
            3 => state.thread = value,
            4 => state.state = value,
            _ => (),
        }
    }
    Some(state)
}

/// Returns the changes of all threads' states, thread by thread, in the order of the file.
#[must_use]
pub fn states(path: &Path) -> Vec<State> {
    let bytes = fs::read(path).unwrap_or_default();
    let mut states: Vec<_> = fields(&bytes).iter().filter_map(|(_, _, packet)| state(packet)).collect();
    states.sort_by_key(|it| it.thread);
    states
}

/// Returns the number of slices that have ended.
#[must_use]
pub fn ends(path: &Path) -> usize {
    events(path).iter().filter(|event| event.kind == END).count()
}

/// Returns how many hits were lost.
#[must_use]
pub fn lost(events: &[Event]) -> u64 {
    events.iter().filter(|event| event.is_after_loss).map(|event| event.numbers[0]).sum()
}

/// Returns the functions of each event's stack, from the outermost, of a file that loses no hits.
///
/// # Panics
/// If an event names a stack that the file does not have before it.
#[must_use]
pub fn callstacks(path: &Path) -> Vec<Vec<String>> {
    let bytes = fs::read(path).unwrap_or_default();
    let number = |of: &[Field<'_>], at: u64| of.iter().find(|it| it.0 == at).map(|it| it.1);
    let (mut names, mut frames, mut stacks) = (HashMap::new(), HashMap::new(), HashMap::new());
    let mut found = Vec::new();
    for (_, _, packet) in fields(&bytes) {
        let packet = fields(packet);
        for (kind, _, content) in packet.iter().filter(|it| it.0 == 12).flat_map(|it| fields(it.2)) {
            let of = fields(content);
            let Some(id) = number(&of, 1) else { continue };
            match kind {
                5 => {
                    let name = of.iter().find(|it| it.0 == 2).unwrap().2;
                    names.insert(id, String::from_utf8(name.to_owned()).unwrap());
                }
                6 => _ = frames.insert(id, number(&of, 2).unwrap()),
                7 => {
                    let calls: Vec<_> = of.iter().filter(|it| it.0 == 2).map(|it| it.1).collect();
                    stacks.insert(id, calls);
                }
                _ => (),
            }
        }
        for event in packet.iter().filter(|it| it.0 == 11) {
            if let Some(id) = number(&fields(event.2), 56) {
                found.push(stacks[&id].iter().map(|frame| names[&frames[frame]].clone()).collect());
            }
        }
    }
    found
}
