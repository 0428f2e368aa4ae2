//! Any hits, with fields of all types, come back as they were recorded: each in its place, cut
//! where the limit was, left out where there was no room, or counted in the gap where it was lost.

use std::collections::HashMap;
use std::fmt;
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;
use std::thread;

use probe_runtime::{Trace, point, probe, select};
use probe_tests::folder::Folder;
use probe_tests::random::Random;
use probe_tests::turn::turn;
use probe_tests::whole;
use probe_trace::{FieldValue, Item};

/// A value as the program has it.
#[derive(Clone, Debug)]
enum Given {
    Value(FieldValue),
    Text(String),
    Bytes(Vec<u8>),
    Shown(String),
    Plain,
}

/// A hit as the program makes it: the last segment of its probe's path, and its fields.
#[derive(Clone, Debug)]
struct Made {
    probe: &'static str,
    fields: Vec<Given>,
    /// Number of the switches of sites before.
    switches: u64,
}

struct Shown<'a>(&'a str);

impl fmt::Debug for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|letter| write!(f, "{letter}"))
    }
}

/// Can't be shown.
struct Plain;

#[probe(args(*), ret(length = ret.len()))]
#[inline(never)]
fn called(plain: &Plain, panics: bool) -> String {
    let Plain = plain;
    assert!(!panics, "asked for");
    "abc".to_owned()
}

fn refused(number: u64) -> u64 {
    assert_ne!(number % 2, 1, "asked for");
    number
}

fn any_text(random: &mut Random) -> String {
    let length = match random.below(8) {
        0 => 0,
        1 => random.below(20_000),
        _ => random.below(100),
    };
    (0..length).map(|_| ['a', 'é', '€', '😀'][usize::try_from(random.below(4)).unwrap()]).collect()
}

/// Panics that are asked for print nothing.
struct Quiet;

impl Quiet {
    fn new() -> Self {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !info.to_string().contains("asked for") {
                before(info);
            }
        }));
        Self
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        if !thread::panicking() {
            drop(panic::take_hook());
        }
    }
}

/// Makes one hit or two; returns them.
#[expect(clippy::cast_possible_truncation, reason = "any bits")]
fn make(random: &mut Random) -> Vec<(&'static str, Vec<Given>)> {
    let number = random.next_number() >> random.below(64);
    let (text, other) = (any_text(random), any_text(random));
    let bytes = text.as_bytes();
    let signed = number.cast_signed();
    let wide = u128::from(number) << random.below(64) | u128::from(number);
    let float = if number.is_multiple_of(3) {
        f64::from_bits(0x7ff0_0000_0000_0000)
    } else {
        f64::from(number as u32)
    };
    let letter = char::from_u32(number as u32 % 0x11_0000).unwrap_or('é');
    let value = Given::Value;
    let numbers = [
        value(FieldValue::U64(number)),
        value(FieldValue::I64(signed)),
        value(FieldValue::U128(wide)),
        value(FieldValue::I128(wide.cast_signed())),
        value(FieldValue::F64(float)),
        value(FieldValue::Bool(number.is_multiple_of(2))),
        value(FieldValue::Char(letter)),
    ];
    let one = [Given::Text(text.clone()), Given::Bytes(bytes.to_vec()), Given::Shown(other.clone())];
    match random.below(if number.is_multiple_of(64) { 7 } else { 5 }) {
        0 => {
            point!("nothing");
            vec![("nothing", Vec::new())]
        }
        1 => {
            point!("single", number = number);
            vec![("single", numbers[..1].to_vec())]
        }
        2 => {
            point!(
                "numbers",
                a = number,
                b = signed,
                c = wide,
                d = wide.cast_signed(),
                e = float,
                f = number.is_multiple_of(2),
                g = letter
            );
            vec![("numbers", numbers.to_vec())]
        }
        3 => {
            point!("texts", a = text.as_str(), b = bytes, c = ?Shown(&other), d = number);
            vec![("texts", [one.to_vec(), numbers[..1].to_vec()].concat())]
        }
        4 => {
            let text = text.as_str();
            point!(
                "many", a = text, b = bytes, c = ?Shown(&other), d = text, e = bytes, f = ?Shown(&other), g = text,
                h = bytes, i = ?Shown(&other), j = text, k = bytes, l = ?Shown(&other), m = text, n = bytes,
                o = ?Shown(&other), p = number, q = wide, r = signed
            );
            let mut fields = [&one[..]; 5].concat();
            fields.extend([numbers[0].clone(), numbers[2].clone(), numbers[1].clone()]);
            vec![("many", fields)]
        }
        5 => {
            let panics = number.is_multiple_of(128);
            let _ = catch_unwind(AssertUnwindSafe(|| called(&Plain, panics)));
            let outcome = if panics { "panic" } else { "return" };
            let length = if panics { FieldValue::Absent } else { FieldValue::U64(3) };
            vec![
                ("called", vec![Given::Plain, value(FieldValue::Bool(panics))]),
                ("called", vec![Given::Text(outcome.to_owned()), value(length)]),
            ]
        }
        _ => {
            let odd = number / 64;
            point!("refused", a = 7_u64, x = refused(odd), b = "b");
            let fields = if odd % 2 == 1 {
                vec![value(FieldValue::Failed); 3]
            } else {
                vec![value(FieldValue::U64(7)), value(FieldValue::U64(odd)), Given::Text("b".to_owned())]
            };
            vec![("refused", fields)]
        }
    }
}

/// Returns a record's fields as a reader gets them, from a writer that cuts texts at the limit and
/// has so much room in a sub-buffer.
fn read_back(fields: &[Given], limit: usize, room: usize) -> Vec<FieldValue> {
    let bytes = |value: &Given| match value {
        Given::Text(text) | Given::Shown(text) => text.as_bytes().to_vec(),
        Given::Bytes(bytes) => bytes.clone(),
        Given::Plain => format!("&{}::Plain", module_path!()).into_bytes(),
        Given::Value(_) => Vec::new(),
    };
    // The writer takes as much room as the values may need, where there is so much.
    let needed = |value: &Given| match value {
        Given::Value(FieldValue::U128(_) | FieldValue::I128(_)) => 2,
        Given::Value(FieldValue::Absent | FieldValue::Failed) => 0,
        Given::Value(_) => 1,
        Given::Shown(_) => 1 + limit.div_ceil(8),
        text => 1 + bytes(text).len().min(limit).div_ceil(8),
    };
    let types = fields.len().div_ceil(8);
    let mut left = (types + fields.iter().map(needed).sum::<usize>()).min(room) - types;
    let one = |value: &Given| {
        if let Given::Value(value) = value {
            let words = needed(&Given::Value(value.clone()));
            let Some(after) = left.checked_sub(words) else { return FieldValue::LeftOut };
            left = after;
            return value.clone();
        }
        let Some(after) = left.checked_sub(1) else { return FieldValue::LeftOut };
        let whole = bytes(value);
        let stored = whole.len().min(limit).min(after * 8);
        left = after - stored.div_ceil(8);
        let (kept, cut) = (&whole[..stored], u32::try_from(whole.len() - stored).unwrap());
        // The cut divides no character.
        let text = || match std::str::from_utf8(kept) {
            Ok(text) => text.to_owned(),
            Err(error) => std::str::from_utf8(&kept[..error.valid_up_to()]).unwrap().to_owned(),
        };
        match value {
            Given::Text(_) => FieldValue::Str { text: text(), cut },
            Given::Shown(_) => FieldValue::Formatted { text: text(), cut },
            Given::Bytes(_) => FieldValue::Bytes { bytes: kept.to_vec(), cut },
            _ => FieldValue::Opaque(text()),
        }
    };
    fields.iter().map(one).collect()
}

/// Compares items of one thread with its hits. Returns the numbers of events and of lost hits.
fn compare(items: &[&Item], made: &[Made], first: usize, (limit, room): (usize, usize)) -> (usize, usize) {
    let (mut at, mut lost) = (first, 0);
    let mut generations: HashMap<u64, u64> = HashMap::new();
    for item in items {
        match item {
            Item::Event(event) => {
                let Made { probe, fields, switches } = &made[at];
                let path = &event.definition.path;
                assert!(path.ends_with(&format!("::{probe}")), "hit {at}: {path}, not {probe}");
                assert_eq!(event.fields, read_back(fields, limit, room), "hit {at}: {probe} {limit} {room}");
                let of_switches = generations.entry(event.generation).or_insert(*switches);
                assert_eq!(of_switches, switches, "a generation has no switch in it");
                at += 1;
            }
            Item::Gap(gap) => {
                at += usize::try_from(gap.lost).unwrap();
                lost += usize::try_from(gap.lost).unwrap();
            }
            _ => (),
        }
    }
    (at - first - lost, lost)
}

/// Hits of one thread, some of them while the trace is paused.
#[test]
fn any_hits_come_back() {
    let _turn = turn();
    let folder = Folder::new("trace-written-and-read");
    let path = folder.join("any.probetrace");
    let _quiet = Quiet::new();
    let mut random = Random::new(0xf1e1d);
    for round in 0..if whole::is_asked_for() { 24 } else { 12 } {
        let ring = [4 << 10, 64 << 10, 4 << 20][round % 3];
        let limit = [64, 9, 100_000, 0][round % 4];
        let sub_buffers = if ring < 32 << 10 { 4 } else { 8 };
        let room = (ring / 8 / sub_buffers - 16 - 7).min(1023);
        let keep = round / 3 % 3;
        let trace = match keep {
            0 => Trace::recorder(),
            1 => Trace::first(),
            _ => Trace::to_file(&path),
        };
        (0..100).for_each(|_| _ = make(&mut random));
        let trace = trace.ring_size(ring).total_size(4 * ring).text_limit(limit);
        let trace = select("trace::written_and_read::**").unwrap().attach(trace).unwrap();
        let mut made = Vec::new();
        for switches in 0..4 {
            for _ in 0..random.below(300) {
                let hits = make(&mut random).into_iter();
                made.extend(hits.map(|(probe, fields)| Made { probe, fields, switches }));
            }
            trace.pause();
            make(&mut random);
            trace.resume();
        }
        let totals = if keep == 2 { trace.finish() } else { trace.snapshot(&path) }.unwrap();
        assert_eq!(totals.written + totals.lost, made.len() as u64);
        let items = super::items(&path);
        let items: Vec<_> = items.iter().collect();
        let events = items.iter().filter(|item| matches!(item, Item::Event(_))).count();
        // A recorder has the latest.
        let first = if keep == 0 { made.len() - events } else { 0 };
        let (read, lost) = compare(&items, &made, first, (limit, room));
        assert_eq!((first + read, lost as u64), (usize::try_from(totals.written).unwrap(), totals.lost));
    }
}

#[test]
fn hits_of_several_threads_come_back() {
    let _turn = turn();
    let folder = Folder::new("trace-several-threads");
    let path = folder.join("threads.probetrace");
    let _quiet = Quiet::new();
    let mut random = Random::new(0x7007);
    (0..100).for_each(|_| _ = make(&mut random));
    let trace = Trace::to_file(&path).ring_size(16 << 10);
    let trace = select("trace::written_and_read::**").unwrap().attach(trace).unwrap();
    // None leaves its ring to another one.
    let together = Barrier::new(8);
    let made: HashMap<u64, Vec<Made>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|seed| {
                let together = &together;
                scope.spawn(move || {
                    let mut random = Random::new(seed);
                    let hits = (0..500).flat_map(|_| make(&mut random)).collect::<Vec<_>>();
                    together.wait();
                    // SAFETY: returns a number.
                    let tid = unsafe { libc::gettid() };
                    let made = hits.into_iter().map(|(probe, fields)| Made { probe, fields, switches: 0 });
                    (u64::from(tid.cast_unsigned()), made.collect())
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let totals = trace.finish().unwrap();
    assert_eq!(totals.written + totals.lost, made.values().map(|made| made.len() as u64).sum::<u64>());
    let items = super::items(&path);
    let mut sum = (0, 0);
    for (tid, made) in &made {
        let is_own = |item: &&Item| match item {
            Item::Event(event) => event.thread.tid == *tid,
            Item::Gap(gap) => gap.thread.tid == *tid,
            _ => false,
        };
        let own: Vec<_> = items.iter().filter(is_own).collect();
        let (read, lost) = compare(&own, made, 0, (64, 16 * 1024 / 8 / 4 - 16 - 7));
        assert_eq!(read + lost, made.len(), "of thread {tid}");
        sum = (sum.0 + read as u64, sum.1 + lost as u64);
    }
    assert_eq!(sum, (totals.written, totals.lost));
}
