//! Items for tests, made in a few words each.

use std::{convert::Infallible, sync::Arc};

use proptest::prelude::*;

use probe_core::abi::Kind;

use crate::item::{Definition, FieldValue, Gap, Item, Off, SystemCall, Thread, ThreadId, TraceEvent};

/// Returns a stack of these calls, from the innermost.
pub(crate) fn stack(calls: &[&str]) -> FieldValue {
    FieldValue::Stack(calls.iter().map(|call| Arc::from(*call)).collect())
}

/// Items of one process, 7, whose threads have the tids 101, 102, and so on.
#[derive(Debug)]
pub(crate) struct Fixture {
    pub(crate) items: Vec<Item>,
    generation: u64,
}

pub(crate) fn id(thread: u64) -> ThreadId {
    ThreadId { file: 0, process: 7, thread, tid: 100 + thread }
}

impl Fixture {
    pub(crate) fn new() -> Self {
        Self { items: Vec::new(), generation: 1 }
    }

    pub(crate) fn thread(mut self, thread: u64, name: &str) -> Self {
        let program = Arc::from("server");
        self.items.push(Item::Thread(Thread { id: id(thread), name: name.to_owned(), program }));
        self
    }

    /// Adds a hit of `KIND PATH`, such as `entry app::f`. The kinds `enter` and `leave` are those
    /// of C code with a stack pointer of its own: `enter c::f 900`; `called` and `left` are those
    /// of hooks. Other kinds with a number are of a future at this address.
    pub(crate) fn hit(mut self, thread: u64, time: u64, text: &str) -> Self {
        self.items.push(Item::Event(self.event(thread, time, text, Vec::new())));
        self
    }

    /// Adds a hit with fields.
    pub(crate) fn fields(
        mut self,
        thread: u64,
        time: u64,
        text: &str,
        fields: Vec<(&str, FieldValue)>,
    ) -> Self {
        self.items.push(Item::Event(self.event(thread, time, text, fields)));
        self
    }

    pub(crate) fn gap(mut self, thread: u64, begin: u64, end: u64, lost: u64) -> Self {
        self.items.push(Item::Gap(Gap { thread: id(thread), begin, end, lost }));
        self
    }

    /// Adds a time off the processor: `ready`, `blocked`, `polled`, or `ended`.
    pub(crate) fn off(self, thread: u64, begin: u64, end: Option<u64>, state: &str) -> Self {
        self.off_in(thread, begin, end, state, None)
    }

    /// Adds one in a system call.
    pub(crate) fn off_in(
        mut self,
        thread: u64,
        begin: u64,
        end: Option<u64>,
        state: &str,
        call: Option<(&str, u64)>,
    ) -> Self {
        self.items.push(Item::Off(Off {
            thread: id(thread),
            begin,
            end,
            is_ready: state == "ready",
            has_ended: state == "ended",
            is_polled: state == "polled",
            processors: [1, 2],
            call: call.map(|(name, argument)| SystemCall { name: name.to_owned(), argument }),
        }));
        self
    }

    pub(crate) fn off_lost(mut self, thread: u64) -> Self {
        self.items.push(Item::OffLost(id(thread)));
        self
    }

    /// Switches sites: a new generation begins.
    pub(crate) fn switch(mut self) -> Self {
        self.generation += 1;
        self
    }

    fn event(&self, thread: u64, time: u64, text: &str, mut fields: Vec<(&str, FieldValue)>) -> TraceEvent {
        let mut words = text.split(' ');
        let (kind, path) = (words.next().unwrap(), words.next().unwrap());
        let number: Option<u64> = words.next().map(|word| word.parse().unwrap());
        let has_frame = matches!(kind, "enter" | "leave");
        let (kind, is_c) = match kind {
            "enter" | "called" => (Kind::Entry, true),
            "leave" | "left" => (Kind::Exit, true),
            _ => (Kind::ALL.into_iter().find(|of| of.name() == kind).unwrap(), false),
        };
        let is_future = number.is_some() && !is_c;
        if is_future {
            fields.insert(0, ("future", FieldValue::U64(number.unwrap())));
        }
        let definition = Definition {
            probe: 1,
            kind: Some(kind),
            may_skip_exit: is_c,
            has_frame,
            is_future,
            path: path.to_owned(),
            file: "src/main.rs".to_owned(),
            line: 12,
            fields: fields.iter().map(|(name, _)| (*name).to_owned()).collect(),
        };
        TraceEvent {
            thread: id(thread),
            time,
            definition: Arc::new(definition),
            fields: fields.into_iter().map(|(_, value)| value).collect(),
            frame: number.filter(|_| is_c),
            generation: self.generation,
        }
    }

    pub(crate) fn results(&self) -> Vec<Result<Item, Infallible>> {
        self.items.iter().cloned().map(Ok).collect()
    }
}

/// Any hits of any threads with gaps and switches, in the order of time.
pub(crate) fn any_fixture() -> impl Strategy<Value = Fixture> {
    let hit = (1..4_u64, 0..4_u64, 0..22_usize, 0..3_u64);
    proptest::collection::vec(hit, 0..120).prop_map(|hits| {
        let mut fixture = Fixture::new();
        let mut time = 0;
        for (thread, later, what, number) in hits {
            time += later;
            fixture = match what {
                0 => fixture.gap(thread, time, time + later, 3),
                1 => fixture.switch(),
                2..5 => fixture.hit(thread, time, &format!("entry app::f{number}")),
                5..7 => fixture.hit(thread, time, &format!("exit app::f{number}")),
                7..9 => fixture.hit(thread, time, &format!("enter c::g{number} {}", 900 - later)),
                9 => fixture.hit(thread, time, &format!("leave c::g{number} {}", 900 - later)),
                10 => fixture.hit(thread, time, &format!("entry app::task {number}")),
                11 => fixture.hit(thread, time, &format!("suspend app::task {number}")),
                12 => fixture.hit(thread, time, &format!("resume app::task {number}")),
                13 => fixture.hit(thread, time, &format!("exit app::task {number}")),
                14 => fixture.hit(thread, time, &format!("drop app::task {number}")),
                15 => fixture.hit(thread, time, &format!("called c::h{number} {}", 900 - later)),
                16 => fixture.hit(thread, time, &format!("left c::h{number} {}", 900 - later)),
                17 => fixture.off(thread, time, (number != 0).then_some(time + later), "ready"),
                18 => fixture.off_in(thread, time, Some(time + later), "blocked", Some(("read", number))),
                19 => fixture.off_lost(thread),
                20 => fixture.off_in(thread, time, Some(time + later), "polled", Some(("futex", number))),
                _ => fixture.fields(thread, time, "point app::p", vec![("n", FieldValue::U64(number))]),
            };
        }
        fixture
    })
}
