//! Debug information of compilers is read as it is, with any level of optimisation.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, fs, process};

use object::{Object, ObjectSymbol};
use probe_hooks::signatures::{Kind, Place, Position, Signature, Site, signatures};

const LEVELS: [&str; 6] = ["-O0", "-O1", "-O2", "-O3", "-Os", "-Og"];
const COMPILERS: [&str; 2] = ["gcc", "clang"];

/// Compiles to a shared library, and returns its bytes.
pub(super) fn compiled(compiler: &str, flags: &[&str]) -> Vec<u8> {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/signatures/functions.c");
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let out: PathBuf = env::temp_dir().join(format!("probe-hooks-signatures-{}-{number}", process::id()));
    let mut command = Command::new(compiler);
    command.args(["-w", "-Wno-psabi", "-g", "-shared", "-fPIC"]).args(flags).arg(source).arg("-o").arg(&out);
    let status = command.status().unwrap();
    assert!(status.success(), "{compiler} {flags:?}");
    let bytes = fs::read(&out).unwrap();
    fs::remove_file(out).unwrap();
    bytes
}

fn is_there(compiler: &str) -> bool {
    Command::new(compiler).arg("--version").output().is_ok()
}

/// Returns the signatures of these functions at their first byte.
fn at_entries(file: &[u8], names: &[&str], position: Position) -> Vec<Option<Signature>> {
    let object = object::File::parse(file).unwrap();
    let addr = |name: &&str| {
        let mut symbols = object.symbols();
        symbols.find(|symbol| symbol.name() == Ok(*name)).unwrap_or_else(|| panic!("{name}")).address()
    };
    let sites: Vec<_> = names.iter().map(|name| Site { addr: addr(name), position }).collect();
    signatures(file, &sites)
}

/// Returns a signature as text: `name:kind@place, … -> kind@place`.
fn shown(signature: &Signature) -> String {
    const NAMES: [&str; 10] = ["rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", "r8", "r9"];
    let value = |kind: &Kind, place: &Place| {
        let kind = match kind {
            Kind::Unsigned(bytes) => format!("u{bytes}"),
            Kind::Signed(bytes) => format!("i{bytes}"),
            Kind::Bool => "bool".to_owned(),
            Kind::Float(bytes) => format!("f{bytes}"),
            Kind::Text => "text".to_owned(),
            Kind::Enumeration(it) => {
                let names: Vec<_> = it.names.iter().map(|(value, name)| format!("{name}={value}")).collect();
                format!("enum({})", names.join(" "))
            }
            Kind::Hidden => "hidden".to_owned(),
        };
        let place = match place {
            Place::Absent => return kind,
            Place::Register(at @ 17..) => format!("xmm{}", at - 17),
            Place::Register(at) => NAMES[usize::from(*at)].to_owned(),
            Place::Memory { base, offset } => format!("[{}{offset:+}]", NAMES[usize::from(*base)]),
        };
        format!("{kind}@{place}")
    };
    let parameters = signature.parameters.iter();
    let parameters: Vec<_> = parameters
        .map(|it| format!("{}:{}", it.name.as_deref().unwrap_or("?"), value(&it.kind, &it.place)))
        .collect();
    let result = signature.result.as_ref().map(|(kind, place)| format!(" -> {}", value(kind, place)));
    parameters.join(", ") + &result.unwrap_or_default()
}

const EXPECTED: &[(&str, &str)] = &[
    ("scalars", "a:i1@rdi, b:u2@rsi, c:i4@rdx, d:u8@rcx, e:bool@r8, f:i1@r9 -> i4"),
    ("floating", "a:f4@xmm0, b:f8@xmm1, c:i4@rdi, d:hidden, e:f4@xmm2 -> f8"),
    (
        "many",
        "a:i8@rdi, b:i8@rsi, c:i8@rdx, d:i8@rcx, e:i8@r8, f:i8@r9, g:i2@[rsp+8], x:f4@xmm0, h:text@[rsp+16]",
    ),
    (
        "enums",
        "mode:enum(CLOSED=-1 READ=0 WRITE=7)@rdi, flags:enum(NONE=0 FIRST=1 LAST=2147483648)@rsi \
         -> enum(CLOSED=-1 READ=0 WRITE=7)",
    ),
    ("pointers", "text:text@rdi, any:u8@rsi, name:text@rdx, bytes:u8@rcx, two:u8@r8, texts:u8@r9 -> text"),
    ("small_struct", "a:hidden, after:i4@rsi -> hidden"),
    ("pair_struct", "a:hidden, after:i4@rdx -> hidden"),
    ("mixed_struct", "a:hidden, i:i4@rsi, d:f8@xmm1 -> hidden"),
    ("float_struct", "a:hidden, d:f8@xmm2 -> hidden"),
    ("large_struct", "i:i4@rsi, a:hidden, after:i4@rdx -> hidden"),
    ("odd_structs", "a:hidden, b:hidden, c:hidden, d:hidden, after:i4@rcx -> i4"),
    ("complexes", "a:hidden, b:hidden, after:f8@xmm3 -> hidden"),
    ("vectors", "a:hidden, after:f4@xmm1, b:u8@rdi -> i4"),
    ("wide", "a:i4@rdi, b:hidden, after:i4@rcx -> hidden"),
    ("split_pair", "a:i4@rdi, b:i4@rsi, c:i4@rdx, d:i4@rcx, e:i4@r8, f:hidden, g:i4@r9, h:i4@[rsp+24] -> i4"),
    ("variadic", "format:text@rdi, count:i4@rsi -> i8"),
    ("unnamed_result", "callback:u8@rdi, array:u8@rsi -> i4"),
    ("nothing", ""),
];

#[test]
fn parameters_are_where_the_convention_puts_them() {
    let names: Vec<_> = EXPECTED.iter().map(|(name, _)| *name).collect();
    for compiler in COMPILERS.into_iter().filter(|it| is_there(it)) {
        for level in LEVELS {
            for more in [&[][..], &["-gdwarf-4"], &["-fno-omit-frame-pointer", "-fcf-protection"]] {
                let file = compiled(compiler, &[&[level], more].concat());
                for ((name, expected), found) in
                    EXPECTED.iter().zip(at_entries(&file, &names, Position::Entry))
                {
                    let found = found.unwrap_or_else(|| panic!("{compiler} {level} {more:?} {name}"));
                    assert_eq!(shown(&found), *expected, "{compiler} {level} {more:?} {name}");
                }
            }
        }
    }
}

#[test]
fn results_are_where_the_convention_puts_them() {
    let results = [
        ("scalars", "a:i1, b:u2, c:i4, d:u8, e:bool, f:i1 -> i4@rax"),
        ("floating", "a:f4, b:f8, c:i4, d:hidden, e:f4 -> f8@xmm0"),
        ("pair_struct", "a:hidden, after:i4 -> hidden"),
        ("nothing", ""),
    ];
    for compiler in COMPILERS.into_iter().filter(|it| is_there(it)) {
        for level in LEVELS {
            let file = compiled(compiler, &[level]);
            let found = at_entries(&file, &results.map(|(name, _)| name), Position::Exit);
            for ((name, expected), found) in results.iter().zip(found) {
                assert_eq!(shown(&found.unwrap()), *expected, "{compiler} {level} {name}");
            }
        }
    }
}

/// Values whose place on the stack depends on the compiler are nowhere.
#[test]
fn what_is_unclear_is_not_guessed() {
    for compiler in COMPILERS.into_iter().filter(|it| is_there(it)) {
        let file = compiled(compiler, &["-O0"]);
        let found = at_entries(&file, &["aligned_struct", "split_wide"], Position::Entry);
        let found: Vec<_> = found.into_iter().map(|it| shown(&it.unwrap())).collect();
        let expected = [
            "a:hidden, first:i4@rdi, i:i4@rsi, j:i4@rdx, k:i4@rcx, l:i4@r8, m:i4@r9, n:i4 -> i4",
            "a:i4@rdi, b:i4@rsi, c:i4@rdx, d:i4@rcx, e:i4@r8, f:hidden, g:i4@r9, h:i4 -> i4",
        ];
        assert_eq!(found, expected, "{compiler}");
    }
}

#[test]
fn a_file_without_debug_information_says_nothing() {
    let file = compiled("gcc", &["-O2", "-g0"]);
    assert_eq!(at_entries(&file, &["scalars"], Position::Entry), [None]);
    assert_eq!(signatures(b"", &[Site { addr: 0, position: Position::Entry }]), [None]);
    let file = compiled("gcc", &["-O2", "-gz"]);
    let found = at_entries(&file, &["nothing", "scalars"], Position::Entry);
    assert_eq!(shown(found[1].as_ref().unwrap()), EXPECTED[0].1);
}
