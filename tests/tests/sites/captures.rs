//! Captured arguments and results: what a consumer sees of each kind of argument and of each way
//! out, exactly. A process of its own: its recorder listens to all of this program's probes.
#![expect(
    clippy::needless_pass_by_value,
    clippy::toplevel_ref_arg,
    clippy::trivially_copy_pass_by_ref,
    reason = "how the arguments are passed is what is tested"
)]

use std::cell::{Cell, RefCell};
use std::fmt::{self, Debug};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{LazyLock, Mutex};

use probe_runtime::field::ValueRef;
use probe_runtime::{Attachment, Consumer, Event, Kind, probe, select};

thread_local! {
    static SEEN: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    static EVALUATED: Cell<u32> = const { Cell::new(0) };
}

/// Writes down each hit of the thread that made it, with the types of its fields.
struct Recorder;

impl Consumer for Recorder {
    fn hit(&self, event: &Event<'_>) {
        let sign = if event.kind() == Kind::Exit { "-" } else { "+" };
        let name = event.path().strip_prefix("sites::captures::").unwrap();
        let fields = event.fields().map(|(name, value)| format!(" {name}={}", shown(value)));
        let line = format!("{sign}{name}{}", fields.collect::<String>());
        SEEN.with_borrow_mut(|seen| seen.push(line));
    }
}

fn shown(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::U64(v) => format!("u64:{v}"),
        ValueRef::I64(v) => format!("i64:{v}"),
        ValueRef::Bool(v) => format!("bool:{v}"),
        ValueRef::F64(v) => format!("f64:{v}"),
        ValueRef::Str(v) => format!("str:{v}"),
        ValueRef::Bytes(v) => format!("bytes:{v:?}"),
        ValueRef::Format(v) => format!("format:{v}"),
        ValueRef::Opaque(v) => format!("opaque:{v}"),
        ValueRef::Absent => "absent".to_owned(),
        ValueRef::Failed => "failed".to_owned(),
        _ => "unknown".to_owned(),
    }
}

static RECORDER: LazyLock<Mutex<Attachment<Recorder>>> = LazyLock::new(|| {
    Mutex::new(select("sites::captures::**, !sites::captures::lazy").unwrap().attach(Recorder).unwrap())
});

/// Asserts the hits that `body` makes on this thread; returns its result.
#[track_caller]
fn check<R>(body: impl FnOnce() -> R, expected: &[&str]) -> R {
    LazyLock::force(&RECORDER);
    SEEN.take();
    let result = body();
    assert_eq!(SEEN.take(), expected);
    result
}

/// Whether `body` panicked.
fn unwinds<T>(body: impl FnOnce() -> T) -> bool {
    catch_unwind(AssertUnwindSafe(body)).is_err()
}

struct Plain;

#[derive(Debug)]
struct Shown {
    id: u32,
}

struct Named(&'static str);

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

#[probe(args(id, rows = rows.len(), ?request, %name, twice = ?id * 2))]
fn chosen(id: u32, rows: &[u8], request: &Shown, name: Named) -> usize {
    rows.len() + id as usize + request.id as usize + name.0.len()
}

#[test]
fn chosen_arguments() {
    let call = || chosen(3, b"ab", &Shown { id: 1 }, Named("me"));
    let entry = "+chosen id=u64:3 rows=u64:2 request=format:Shown { id: 1 } name=format:me twice=format:6";
    assert_eq!(check(call, &[entry, "-chosen"]), 8);
}

#[probe(args(*))]
fn all(
    id: u32,
    text: &str,
    owned: String,
    shown: Shown,
    list: &mut Vec<u8>,
    plain: &Plain,
    option: Option<i8>,
) {
    list.push(u8::try_from(owned.len() + text.len()).unwrap());
    let _ = (id, shown, plain, option);
}

#[test]
fn all_arguments_by_their_types() {
    let mut list = vec![7];
    check(
        || all(3, "a", "b".into(), Shown { id: 1 }, &mut list, &Plain, Some(-1)),
        &[
            "+all id=u64:3 text=str:a owned=str:b shown=format:Shown { id: 1 } list=bytes:[7] \
             plain=opaque:&sites::captures::Plain option=format:Some(-1)",
            "-all",
        ],
    );
    assert_eq!(list, [7, 2]);
}

#[probe(args(*, sum = a + b.0, c = ?c))]
fn patterns(
    (a, _): (u32, u32),
    ref b @ (c, d): &(u32, u32),
    [e, ..]: [u8; 3],
    Shown { id: f }: Shown,
    _g: u8,
    _: u8,
) {
    let _ = (a, b, c, d, e, f);
}

#[test]
fn variables_in_patterns() {
    let call = || patterns((1, 2), &(3, 4), [5, 6, 7], Shown { id: 8 }, 9, 10);
    let entry = "+patterns a=u64:1 b=format:(3, 4) d=u64:4 e=u64:5 f=u64:8 sum=u64:4 c=format:3";
    check(call, &[entry, "-patterns"]);
}

#[probe(args(*), ret)]
fn generic<T, D: Debug, const N: usize>(
    unbound: T,
    debug: D,
    array: [T; N],
    closure: impl Fn(u32) -> u32,
    slice: &[D],
) -> u32 {
    let _ = (unbound, debug, array, slice);
    closure(1)
}

#[test]
fn of_generic_types_the_bounds_decide() {
    let call = || generic(1_u8, 2_u8, [3_u8], u32::wrapping_neg, &[4]);
    let found = check_any(call);
    assert_eq!(found.1.len(), 2);
    let entry = "+generic unbound=opaque:u8 debug=format:2 array=opaque:[u8; 1] closure=opaque:";
    assert!(found.1[0].starts_with(entry) && found.1[0].ends_with(" slice=format:[4]"), "{:?}", found.1);
    assert_eq!(found.1[1], "-generic outcome=str:return ret=u64:4294967295");
}

fn check_any<R>(body: impl FnOnce() -> R) -> (R, Vec<String>) {
    LazyLock::force(&RECORDER);
    SEEN.take();
    (body(), SEEN.take())
}

struct Table {
    rows: Vec<String>,
    reads: u32,
}

impl Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rows", self.rows.len())
    }
}

impl Table {
    #[probe(args(*), ret)]
    fn row(&self, at: usize) -> Option<&str> {
        self.rows.get(at).map(String::as_str)
    }

    #[probe(args(self, rows = self.rows.len()), ret)]
    fn row_mut(&mut self, at: usize) -> &mut String {
        self.reads += 1;
        if at == 0 {
            return &mut self.rows[0];
        }
        &mut self.rows[at]
    }

    #[probe(args(?self), ret(rows = ret.len()))]
    fn into_rows(self) -> Vec<String> {
        self.rows
    }

    #[probe(args(*), ret)]
    fn boxed(self: Box<Self>) -> u32 {
        self.reads
    }

    #[probe(args(*), ret)]
    fn pinned(self: Pin<&mut Self>) -> &mut u32 {
        &mut self.get_mut().reads
    }

    #[probe(ret)]
    fn iter_mut(&mut self) -> impl Iterator<Item = &mut String> {
        self.rows.iter_mut()
    }
}

// The short form asks for a `Field`, which is what a table of text may be.
impl probe_runtime::field::Field for Table {
    fn pass<P: probe_runtime::__private::v1::Passage>(&self) -> P::Out<'_> {
        self.rows[0].pass::<P>()
    }
}

#[test]
fn every_self_and_borrowed_results() {
    let mut table = Table { rows: vec!["a".into(), "b".into()], reads: 0 };
    check(
        || table.row(1).is_some(),
        &["+row self=str:a at=u64:1", "-row outcome=str:some ret=format:Some(\"b\")"],
    );
    check(|| table.row(2).is_some(), &["+row self=str:a at=u64:2", "-row outcome=str:none ret=format:None"]);
    check(
        || table.row_mut(1).push('x'),
        &["+row_mut self=str:a rows=u64:2", "-row_mut outcome=str:return ret=str:b"],
    );
    check(
        || *Pin::new(&mut table).pinned() += 1,
        &["+pinned self=format:2 rows", "-pinned outcome=str:return ret=u64:1"],
    );
    let name = check_any(|| table.iter_mut().for_each(|row| row.push('y'))).1;
    assert_eq!(name, ["+iter_mut", "-iter_mut outcome=str:return ret=format:IterMut([\"a\", \"bx\"])"]);
    assert_eq!((table.rows[0].as_str(), table.rows[1].as_str(), table.reads), ("ay", "bxy", 2));
    let again = Box::new(Table { rows: vec!["z".into()], reads: 9 });
    check(|| again.boxed(), &["+boxed self=format:1 rows", "-boxed outcome=str:return ret=u64:9"]);
    check(
        || table.into_rows(),
        &["+into_rows self=format:2 rows", "-into_rows outcome=str:return rows=u64:2"],
    );
}

#[probe(ret)]
fn question(text: &str) -> Result<u32, std::num::ParseIntError> {
    let value = text.parse::<u32>()?;
    if value == 0 {
        return Ok(7);
    }
    Ok(value)
}

#[probe(ret(?ret, is_ok = ret.is_ok(), length = ret.as_ref().map_or(0, Vec::len)))]
fn listed(n: usize) -> Result<Vec<u8>, Plain2> {
    if n > 2 { Err(Plain2) } else { Ok(vec![1; n]) }
}

#[derive(Debug)]
struct Plain2;

#[test]
fn results_tell_ok_from_err() {
    check(|| question("1").is_ok(), &["+question", "-question outcome=str:ok ret=format:Ok(1)"]);
    check(|| question("0").is_ok(), &["+question", "-question outcome=str:ok ret=format:Ok(7)"]);
    let error = "-question outcome=str:err ret=format:Err(ParseIntError { kind: InvalidDigit })";
    check(|| question("x").is_ok(), &["+question", error]);
    let ok = "-listed outcome=str:ok ret=format:Ok([1, 1]) is_ok=bool:true length=u64:2";
    assert_eq!(check(|| listed(2), &["+listed", ok]).unwrap(), [1, 1]);
    let error = "-listed outcome=str:err ret=format:Err(Plain2) is_ok=bool:false length=u64:0";
    check(|| listed(3).is_err(), &["+listed", error]);
}

#[probe(args(n), ret)]
fn panics(n: u32) -> String {
    let digits = n.to_string();
    assert!(n != 0, "as planned");
    digits
}

#[probe(ret(a = ret.0, b = %ret.1, c = ret.1.len()))]
fn panics_too(n: u32) -> (u32, String) {
    assert!(n != 0, "as planned");
    (n, n.to_string())
}

#[test]
fn a_panic_has_an_outcome_and_no_result() {
    let failed = probe_runtime::losses::failed_captures();
    check(|| unwinds(|| panics(1)), &["+panics n=u64:1", "-panics outcome=str:return ret=str:1"]);
    check(|| unwinds(|| panics(0)), &["+panics n=u64:0", "-panics outcome=str:panic ret=absent"]);
    check(
        || unwinds(|| panics_too(2)),
        &["+panics_too", "-panics_too outcome=str:return a=u64:2 b=format:2 c=u64:1"],
    );
    check(
        || unwinds(|| panics_too(0)),
        &["+panics_too", "-panics_too outcome=str:panic a=absent b=absent c=absent"],
    );
    assert_eq!(probe_runtime::losses::failed_captures(), failed);
}

#[probe(args(n), ret)]
fn factorial(n: u64) -> u64 {
    if n == 0 { 1 } else { n * factorial(n - 1) }
}

#[probe(ret)]
fn nothing() {}

#[probe(ret)]
fn small_pair(n: u32) -> (u32, bool) {
    (n, n > 1)
}

#[probe(ret)]
fn opaque(_n: u32) -> Plain {
    Plain
}

#[probe(ret)]
unsafe fn unsafe_one(x: *const u32) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { *x }
}

#[probe(args(*), ret)]
extern "C" fn c_abi(a: u8, b: f64) -> f64 {
    f64::from(a) + b
}

#[test]
fn every_kind_of_function() {
    let hits = ["+factorial n=u64:1", "+factorial n=u64:0", "-factorial outcome=str:return ret=u64:1"];
    check(|| factorial(1), &[&hits[..], &hits[2..]].concat());
    check(nothing, &["+nothing", "-nothing outcome=str:return ret=format:()"]);
    let pair =
        check(|| small_pair(2), &["+small_pair", "-small_pair outcome=str:return ret=format:(2, true)"]);
    assert_eq!(pair, (2, true));
    check(|| opaque(1), &["+opaque", "-opaque outcome=str:return ret=opaque:sites::captures::Plain"]);
    // SAFETY: a live variable.
    check(|| unsafe { unsafe_one(&5) }, &["+unsafe_one", "-unsafe_one outcome=str:return ret=u64:5"]);
    check(|| c_abi(1, 0.5), &["+c_abi a=u64:1 b=f64:0.5", "-c_abi outcome=str:return ret=f64:1.5"]);
}

fn count_up() -> u32 {
    EVALUATED.set(EVALUATED.get() + 1);
    EVALUATED.get()
}

#[probe(args(n, a = count_up()), ret(b = count_up(), c = *ret))]
fn lazy(n: u32) -> u32 {
    n
}

#[test]
fn evaluated_only_while_active() {
    (0..10).for_each(|n| assert_eq!(lazy(n), n));
    assert_eq!(EVALUATED.take(), 0);
    let entries =
        select("sites::captures::lazy kind=entry").unwrap().attach(probe_runtime::Count::new()).unwrap();
    (0..10).for_each(|n| assert_eq!(lazy(n), n));
    assert_eq!((EVALUATED.take(), entries.total()), (10, 10));
    let exits =
        select("sites::captures::lazy kind=exit").unwrap().attach(probe_runtime::Count::new()).unwrap();
    (0..10).for_each(|n| assert_eq!(lazy(n), n));
    assert_eq!((EVALUATED.take(), entries.total(), exits.total()), (20, 20, 10));
    drop((entries, exits));
    (0..10).for_each(|n| assert_eq!(lazy(n), n));
    assert_eq!(EVALUATED.take(), 0);
}
