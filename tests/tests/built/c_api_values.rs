//! Hand-placed probes in C and C++ (`probe.h`), by each compiler and with the flags that change its
//! code. They are listed with file and line, and counted and delivered with exact values. A
//! consumer that changes all registers leaves live registers and the red zone intact. Results are
//! those of the same code without probes.
//! A process of its own: it loads libraries with probes and listens to them.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(probe_portable)))]

use std::backtrace::Backtrace;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use probe_runtime::field::{FieldInfo, ValueRef};
use probe_runtime::losses::unreadable_records;
use probe_runtime::registry::ProbeState;
use probe_runtime::{Consumer, Count, Event, Kind, probes, select};
use probe_tests::c_library::{makes, shared_library, source};
use probe_tests::destroyer::Destroyer;
use probe_tests::library::Library;
use probe_tests::whole;

/// Writes down each hit: the probe's name without its provider, and its fields.
#[derive(Default)]
struct Recorder(Mutex<Vec<String>>);

impl Consumer for Recorder {
    fn hit(&self, event: &Event<'_>) {
        let (_, name) = event.path().split_once("::").unwrap();
        let fields = event.fields().map(|(name, value)| format!(" {name}={}", shown(value)));
        self.0.lock().unwrap().push(format!("{name}{}", fields.collect::<String>()));
    }
}

fn shown(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::U64(v) => format!("u64:{v}"),
        ValueRef::I64(v) => format!("i64:{v}"),
        ValueRef::F64(v) => format!("f64:{:#x}", v.to_bits()),
        ValueRef::Str(v) => format!("str:{v}"),
        ValueRef::Bytes(v) => format!("bytes:{v:x?}"),
        _ => "unknown".to_owned(),
    }
}

/// A library of the fixture's files, and the same without probes.
struct Pair {
    provider: String,
    probed: Library,
    plain: Library,
}

impl Pair {
    fn build(compiler: &str, flags: &[&str], files: &[&str]) -> Self {
        let provider: String = format!("{compiler}{}", flags.concat())
            .chars()
            .map(|c| if c.is_alphanumeric() { c } else { '_' })
            .collect();
        let path = |name: &str| -> PathBuf {
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("c_api_{provider}_{name}.so"))
        };
        let (probed, plain) = (path("probed"), path("plain"));
        shared_library(compiler, &provider, flags, files, &probed);
        shared_library(compiler, &provider, &[flags, &["-DPROBE_OFF"]].concat(), files, &plain);
        Self { probed: Library::open(&probed), plain: Library::open(&plain), provider }
    }

    fn select(&self, name: &str) -> probe_runtime::ProbeSet {
        select(&format!("{}::{name}", self.provider)).unwrap()
    }

    /// Returns a function's result for three numbers.
    fn results(library: &Library, function: &str) -> [u64; 3] {
        let function = library.function(function);
        [3_u64, 4, 1_000_003].map(|x| function(x))
    }

    /// Checks that a function returns the same results without probes, latent, counted, and
    /// delivered to a consumer that changes all registers; and that three calls hit its probes
    /// `hits` times.
    #[track_caller]
    fn survives(&self, function: &str, selector: &str, hits: u64) {
        let provider = &self.provider;
        let expected = Self::results(&self.plain, function);
        assert_eq!(Self::results(&self.probed, function), expected, "{provider} {function}, latent");
        let count = self.select(selector).attach(Count::new()).unwrap();
        assert_eq!(Self::results(&self.probed, function), expected, "{provider} {function}, counted");
        let destroy = self.select(selector).attach(Destroyer::default()).unwrap();
        assert_eq!(Self::results(&self.probed, function), expected, "{provider} {function}, delivered");
        assert_eq!((destroy.calls(), count.total()), (hits, 2 * hits), "{provider} {function}");
        drop((count, destroy));
        assert_eq!(Self::results(&self.probed, function), expected, "{provider} {function}, latent again");
    }

    /// Returns the records of one call.
    fn recorded(&self, function: &str, x: u64) -> Vec<String> {
        let recorder = self.select("**").attach(Recorder::default()).unwrap();
        self.probed.function(function)(x);
        recorder.0.lock().unwrap().clone()
    }
}

/// Returns the flags that this processor can run. A slice has each flag of the whole in fewer
/// builds, and the widest vectors.
fn flags() -> Vec<Vec<&'static str>> {
    let mut flags = vec![
        vec!["-O0"],
        vec!["-O3", "-fno-plt", "-ffunction-sections", "-Wl,--gc-sections"],
        vec!["-Os", "-fcf-protection", "-g"],
        vec!["-O2", "-masm=intel", "-fno-omit-frame-pointer", "-fstack-protector-all"],
    ];
    if whole::is_asked_for() {
        flags.extend([vec!["-O2"], vec!["-O2", "-masm=intel"]]);
        flags.push(vec!["-O2", "-fno-omit-frame-pointer", "-fstack-protector-all"]);
    }
    let has_avx512 = std::is_x86_feature_detected!("avx512f");
    if has_avx512 {
        flags.push(vec!["-O3", "-mavx512f"]);
    }
    if std::is_x86_feature_detected!("avx2") && (!has_avx512 || whole::is_asked_for()) {
        flags.push(vec!["-O3", "-mavx2"]);
    }
    flags
}

fn c_pairs() -> Vec<Pair> {
    let builds = whole::pairs(&makes(), &flags()).into_iter();
    builds.map(|(make, flags)| Pair::build(make.c, &flags, &["points.c", "other.c"])).collect()
}

/// The fixture's probes, and how often one call with 3 hits each, whatever the flags.
const VALUES: [&str; 18] = [
    "u64 value=u64:18446744073709551615",
    "u64_narrow value=u64:255",
    "i64 value=i64:-9223372036854775808",
    "i64_narrow value=i64:-1",
    "f64 value=f64:0x3fb999999999999a",
    "f64_narrow value=f64:0x3ff8000000000000",
    "str value=str:acc",
    "str_literal value=str:hé",
    "str_latin1 value=bytes:[68, e9]",
    "str_null value=str:(null)",
    "bytes value=bytes:[63, 63, 0]",
    "bytes_null value=bytes:[]",
    "named count=u64:3",
    "named_str text=str:acc",
    "pair low=i64:-1 high=f64:0x4002000000000000",
    "pair_str key=str:acc value=u64:3",
    "deep::path::to::it",
    "comma",
];

/// The line of a fixture's source that has this text.
fn line_of(file: &str, text: &str) -> u32 {
    let content = fs::read_to_string(source(file)).unwrap();
    let at = content.lines().position(|line| line.contains(text)).expect("the text is there");
    u32::try_from(at).unwrap() + 1
}

#[test]
fn c_in_every_way() {
    for pair in c_pairs() {
        check_listing(&pair);
        check_values(&pair);
        for (function, selector, hits) in [
            ("leaf", "leaf", 3),
            ("one_field", "one_field", 3),
            ("red_zone", "red_zone*", 6),
            ("floats", "floats", 30),
            ("vectors", "vectors", 30),
            ("long_doubles", "long_doubles", 30),
            ("copies", "in*", 12),
            ("long_text", "a_path_that_is_as_long_as_a_path_can_be::**", 3),
            ("both_files", "in_header", 6),
            ("unwound_outer", "unwound", 3),
        ] {
            pair.survives(function, selector, hits);
        }
        check_backtrace(&pair);
        let mine = format!("{}::", pair.provider);
        assert!(
            probes()
                .iter()
                .filter(|it| it.path().starts_with(&mine))
                .all(|it| it.state() == ProbeState::Latent)
        );
    }
    assert_eq!(unreadable_records(), 0);
}

fn check_listing(pair: &Pair) {
    let mine = format!("{}::", pair.provider);
    let mut found = BTreeMap::new();
    for probe in probes().into_iter().filter(|probe| probe.path().starts_with(&mine)) {
        let name = probe.path()[mine.len()..].to_owned();
        assert_eq!(probe.kind(), Kind::Point, "{name}");
        let shown = |field: &FieldInfo| format!("{}: {:?}", field.name(), field.ty().expect("a type"));
        let fields = probe.fields().iter().map(shown).collect::<Vec<_>>().join(", ");
        let listed = (probe.file().to_owned(), probe.line(), fields, probe.sites());
        assert_eq!(found.insert(name.clone(), listed), None, "{name} is listed once");
    }
    for (name, file, text, fields) in [
        ("leaf", "points.c", "PROBE(\"leaf\")", ""),
        ("red_zone_two", "points.c", "\"red_zone_two\"", "first: U64, last: U64"),
        ("inlined", "points.c", "\"inlined\"", "value: I64"),
        ("deep::path::to::it", "points.c", "\"deep::path::to::it\"", ""),
        ("in_header", "shared.h", "\"in_header\"", "value: U64"),
    ] {
        let (at, line, names, sites) = &found[name];
        assert!(at.ends_with(&format!("c_api/{file}")), "{at}");
        assert_eq!((*line, names.as_str()), (line_of(file, text), fields), "{name}");
        assert!(*sites >= 1, "{name} of {}", pair.provider);
    }
    assert_eq!(found.len(), VALUES.len() + 12, "{:?}", found.keys());
    let long = found.keys().find(|name| name.len() > 144).expect("the long one");
    assert!(found[long].2.starts_with("value: "), "{}", found[long].2);
}

fn check_values(pair: &Pair) {
    assert_eq!(pair.recorded("values", 3), VALUES, "{}", pair.provider);
    assert_eq!(pair.recorded("one_field", 5), ["one_field value=u64:15"]);
    assert_eq!(pair.recorded("red_zone", 2), ["red_zone", "red_zone_two first=u64:2 last=u64:28"]);
    assert_eq!(
        pair.recorded("copies", 3),
        ["inlined value=i64:-3", "inlined value=i64:-4", "inlined value=i64:-6", "in_header value=u64:3"]
            .map(str::to_owned),
        "{}",
        pair.provider
    );
    let evaluations = pair.probed.function("evaluations");
    assert_eq!((evaluations(0), evaluations(0)), (0, 0), "a latent probe computes nothing");
    assert_eq!(pair.recorded("evaluations", 0), ["evaluations value=u64:1"]);
    assert_eq!(evaluations(0), 1, "{}", pair.provider);
    assert_eq!(pair.plain.function("evaluations")(0), 0);
}

/// Keeps a backtrace of its last hit.
#[derive(Default)]
struct Trace(Mutex<String>);

impl Consumer for Trace {
    fn hit(&self, _event: &Event<'_>) {
        *self.0.lock().unwrap() = Backtrace::force_capture().to_string();
    }
}

fn check_backtrace(pair: &Pair) {
    let trace = pair.select("unwound").attach(Trace::default()).unwrap();
    assert_eq!(pair.probed.function("unwound_outer")(6), 8);
    let trace = trace.0.lock().unwrap();
    let [inner, outer, test] = ["unwound_inner", "unwound_outer", "c_in_every_way"].map(|it| trace.find(it));
    let all = [inner, outer, test].map(|it| it.unwrap_or_else(|| panic!("{}: {trace}", pair.provider)));
    assert!(all.is_sorted(), "{}: {trace}", pair.provider);
}

#[test]
fn cpp_in_every_way() {
    // A slice has each of the flags by the other compiler than in C.
    let mut makes = makes();
    makes.reverse();
    for (make, mut flags) in whole::pairs(&makes, &flags()) {
        flags.push("-std=c++11");
        check_cpp(&Pair::build(make.cpp, &flags, &["points.cpp", "evaluations.cpp"]));
    }
}

fn check_cpp(pair: &Pair) {
    let provider = &pair.provider;
    // Three instances of the template and copies of inline functions, in two files: one probe each.
    for name in ["in_template", "in_inline", "in_header"] {
        assert_eq!(pair.select(name).len(), 1, "{provider} {name}");
    }
    pair.survives("templates", "in_template", 12);
    pair.survives("templates", "in_inline", 6);
    pair.survives("templates", "in_header", 6);
    pair.survives("scopes", "inner", 2 + 3 + 2);
    assert_eq!(
        pair.recorded("scopes", 3),
        [
            "constructor value=u64:1", "outer", "constructor value=u64:2", "inner value=u64:3",
            "destructor value=u64:2", "constructor value=u64:2", "destructor value=u64:2",
            "constructor value=u64:2", "inner value=u64:3", "destructor value=u64:2",
            "destructor value=u64:1",
        ],
        "{provider}"
    );
    assert_eq!(
        pair.recorded("temporaries", 12),
        ["temporary value=str:a string that is too long for its own object, 12"],
        "{provider}"
    );
    assert_eq!(
        pair.recorded("exceptions", 5),
        ["constructor value=u64:5", "before_throw", "destructor value=u64:5", "caught value=str:odd"],
        "{provider}"
    );
    assert_eq!(pair.recorded("lambdas", 5), ["lambda value=u64:6", "lambda value=u64:7"], "{provider}");
    for (function, selector, hits) in [("temporaries", "temporary", 3), ("lambdas", "lambda", 6)] {
        pair.survives(function, selector, hits);
    }
    let exceptions = pair.probed.function("exceptions");
    let attached = pair.select("**").attach(Destroyer::default()).unwrap();
    assert_eq!((exceptions(5), exceptions(6)), (1_000, 6), "{provider}");
    assert_eq!(attached.calls(), 4 + 3, "{provider}");
}
