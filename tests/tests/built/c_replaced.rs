//! Functions of C run others in their place.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_portable, probe_off))))]

use std::arch::asm;
use std::ffi::c_char;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::{mem, thread};

use probe_build::Sites;
use probe_runtime::control::{CFunction, CSignature};
use probe_runtime::latency::FunctionLatency;
use probe_runtime::{Aggregate, Count, Latency, select};
use probe_tests::c::{Compiler, Language, Recipe};
use probe_tests::library::Library;

type Add = extern "C" fn(i32, i32) -> i32;
type Many = extern "C" fn(i64, i32, i16, i8, i64, i64, i64, f64, f32, i64) -> i64;

/// Loads a build whose functions' names begin with `prefix`.
fn loaded(compiler: Compiler, flags: &str, prefix: &str) -> Library {
    loaded_from(OF_C, compiler, Sites::EntryReturn, flags, prefix)
}

const OF_C: (Language, &str) = (Language::C, "replaced.c");
const OF_CPP: (Language, &str) = (Language::Cpp, "replaced.cpp");

fn loaded_from(
    (language, file): (Language, &'static str),
    compiler: Compiler,
    sites: Sites,
    flags: &str,
    prefix: &str,
) -> Library {
    let flags = &format!("{flags} -DN(it)={prefix}_##it");
    let recipe = Recipe::new(compiler, language, sites, flags).files(&[file]);
    Library::open_for_all(&recipe.build(env!("CARGO_TARGET_TMPDIR")).0)
}

fn compilers() -> impl Iterator<Item = Compiler> {
    Compiler::ALL.into_iter().filter(|compiler| compiler.is_there())
}

fn find<F: CSignature>(name: &str) -> CFunction<F> {
    // SAFETY: each caller names the type of `tests/c/replaced.c`.
    unsafe { CFunction::find(name) }.unwrap()
}

/// Changes all registers that a function may change.
fn change_registers() {
    // SAFETY: they are named.
    unsafe {
        asm!(
            "mov rax, -1",
            "mov rcx, rax",
            "mov rdx, rax",
            "mov rsi, rax",
            "mov rdi, rax",
            "mov r8, rax",
            "mov r9, rax",
            "mov r10, rax",
            "mov r11, rax",
            ".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15\npcmpeqd xmm\\n, xmm\\n\n.endr",
            clobber_abi("C")
        );
    }
}

extern "C" fn add(a: i32, b: i32) -> i32 {
    change_registers();
    1000 + a + b
}

#[test]
fn the_other_function_gets_the_arguments_and_its_result_is_the_calls() {
    static MANY: OnceLock<CFunction<Many>> = OnceLock::new();
    static LEAF: OnceLock<CFunction<extern "C" fn(i64) -> i64>> = OnceLock::new();
    #[expect(clippy::many_single_char_names, reason = "as in the C file")]
    extern "C" fn many(a: i64, b: i32, c: i16, d: i8, e: i64, f: i64, g: i64, x: f64, y: f32, h: i64) -> i64 {
        change_registers();
        assert_eq!(
            (a, b, c, d, e, f, g, x.to_bits(), y.to_bits(), h),
            (1, 2, 3, 4, 5, 6, 7, 8_f64.to_bits(), 9_f32.to_bits(), 10)
        );
        MANY.get().unwrap().original()(a, b, c, d, e, f, g, x, y, h) + 1
    }
    extern "C" fn half(x: f32) -> f32 {
        change_registers();
        x / 4.0
    }
    extern "C" fn eighth(x: f32) -> f32 {
        x / 8.0
    }
    extern "C" fn store(at: *mut i64, value: i64) {
        change_registers();
        // SAFETY: the caller passes the address of its variable.
        unsafe { *at = value + 1 };
    }
    extern "C" fn leaf(x: i64) -> i64 {
        let result = LEAF.get().unwrap().original()(x);
        change_registers();
        result
    }
    let library = loaded(Compiler::Gcc, "-g -O2", "all");
    // SAFETY: its type.
    let all: extern "C" fn() -> i64 = unsafe { mem::transmute(library.symbol("all_all")) };
    let leaves = library.function("all_leaves");
    let (latent, latent_leaves) = (all(), leaves(1000));
    assert_eq!(latent, 5 * 100_000_000 + 55_000 + 35);
    let _ = (MANY.set(find("all_many")), LEAF.set(find("all_leaf")));
    {
        // SAFETY: functions of these types.
        let _replaced = unsafe {
            (
                MANY.get().unwrap().replace(many).unwrap(),
                find::<extern "C" fn(f32) -> f32>("all_half").replace(half).unwrap(),
                find::<extern "C" fn(*mut i64, i64)>("all_store").replace(store).unwrap(),
                LEAF.get().unwrap().replace(leaf).unwrap(),
            )
        };
        assert_eq!(all(), 6 * 100_000_000 + 56_000 + 17);
        assert_eq!(leaves(1000), latent_leaves, "callers find their registers as they left them");
    }
    assert_eq!((all(), leaves(1000)), (latent, latent_leaves));
    // The newest one runs, whatever goes meanwhile.
    let function = find::<extern "C" fn(f32) -> f32>("all_half");
    // SAFETY: of its type.
    let [first, second, third] = [half, eighth, half].map(|with| unsafe { function.replace(with) }.unwrap());
    assert_eq!(all() % 1000, 17);
    drop(third);
    assert_eq!(all() % 1000, 8);
    drop(first);
    assert_eq!(all() % 1000, 8);
    second.pause();
    assert_eq!(all() % 1000, 35);
    second.resume();
    assert_eq!(all() % 1000, 8);
    drop(second);
    assert_eq!(all(), latent);
}

/// Returns why a function is not found with the type `F`.
fn refusal<F: CSignature>(function: &str) -> String {
    // SAFETY: it is not called.
    let error = unsafe { CFunction::<F>::find(function) }.unwrap_err().to_string();
    let before = format!("`{function}` can't be replaced: ");
    error.strip_prefix(&before).unwrap_or_else(|| panic!("{error}")).to_owned()
}

#[test]
fn types_are_checked() {
    for compiler in compilers() {
        let prefix = format!("typed_{compiler:?}");
        // No library is closed here: other tests' attachments would have no values any more.
        let _library = loaded(compiler, "-g -O2", &prefix);
        let name = |of: &str| format!("{prefix}_{of}");
        let add = &name("add");
        assert_eq!(
            refusal::<extern "C" fn(i32) -> i32>(add),
            "it has 2 parameters, and the given type has 1"
        );
        assert_eq!(
            refusal::<extern "C" fn(i32, *const c_char) -> i32>(add),
            "its parameter 2 (`b`) is an integer of 4 bytes, and that of the given type is an integer or a \
             pointer of 8 bytes"
        );
        assert_eq!(
            refusal::<extern "C" fn(i32, i32)>(add),
            "its result is an integer of 4 bytes, and that of the given type is nothing"
        );
        assert_eq!(
            refusal::<extern "C" fn(i64) -> i64>(&name("pair")),
            "its parameter 1 (`pair`) is a structure, a vector or a number of more than 8 bytes, and that of \
             the given type is an integer or a pointer of 8 bytes"
        );
        assert_eq!(refusal::<Add>(&name("variadic")), "it takes a variable number of arguments");
        assert_eq!(refusal::<Add>(&name("add kind=exit")), "it has no entry among its probes");
        let several = refusal::<Add>(&name("*"));
        assert!(several.starts_with("it names 10 functions, such as `typed_"), "{several}");
        // SAFETY: it is not called.
        let nothing = unsafe { CFunction::<Add>::find(&name("nothing")) };
        assert!(matches!(nothing, Err(probe_runtime::Error::NoMatch { .. })), "{nothing:?}");
    }
}

#[test]
fn functions_that_nothing_describes_are_left_alone() {
    let _library = loaded(Compiler::Gcc, "-O2", "bare");
    // SAFETY: of this type.
    let leaf = unsafe { CFunction::<extern "C" fn(i64) -> i64>::find("bare_leaf") };
    assert!(leaf.unwrap_err().to_string().ends_with("compile it with -g"));
    assert!(format!("{:?}", find::<Add>("bare_add")).starts_with("CFunction { path: \"bare_add\", type: "));
}

#[test]
fn sites_of_other_kinds_are_left_alone() {
    for compiler in compilers() {
        let prefix = format!("hooked_{compiler:?}");
        let sites = Sites::InstrumentFunctions;
        let library = loaded_from(OF_C, compiler, sites, "-g -O2", &prefix);
        // Their probes are found by hits.
        library.function(&format!("{prefix}_calls"))(1);
        assert_eq!(
            refusal::<Add>(&format!("{prefix}_add")),
            "it has no site at its entry that probe-build or probe-cc has placed"
        );
    }
}

/// C++ unwinds through the code that leads to the other function.
#[test]
fn what_the_other_function_throws_is_caught() {
    type Calm = unsafe extern "C" fn(i32) -> i32;
    for compiler in compilers() {
        let prefix = format!("thrown_{compiler:?}");
        let library = loaded_from(OF_CPP, compiler, Sites::EntryReturn, "-g -O2", &prefix);
        let name = |of: &str| format!("{prefix}_{of}");
        let catching = library.function(&name("catching"));
        // SAFETY: its type.
        let throwing: Calm = unsafe { mem::transmute(library.symbol(&name("throwing"))) };
        assert_eq!(catching(10), 0);
        // SAFETY: the caller catches its numbers.
        let replaced = unsafe { find::<Calm>(&name("calm")).replace(throwing) }.unwrap();
        assert_eq!(catching(10), (1 + 3 + 5 + 7 + 9) * 1_000_000 + 4);
        drop(replaced);
        assert_eq!(catching(10), 0);
    }
}

/// Each call runs one of both, whatever is switched meanwhile, and each is counted.
#[test]
fn calls_run_one_of_both_while_it_comes_and_goes() {
    const CALLS: u64 = 200_000;
    static REPLACED: AtomicU64 = AtomicU64::new(0);
    extern "C" fn counted(a: i32, b: i32) -> i32 {
        REPLACED.fetch_add(1, Relaxed);
        add(a, b)
    }
    for compiler in compilers() {
        let prefix = format!("storm_{compiler:?}");
        let library = loaded(compiler, "-g -O2", &prefix);
        let name = |of: &str| format!("{prefix}_{of}");
        let calls = library.function(&name("calls"));
        let count = select(&name("add kind=entry")).unwrap().attach(Count::new()).unwrap();
        let sum = select(&name("add")).unwrap().attach(Aggregate::new("sum(a)").unwrap()).unwrap();
        let latency = select(&name("add")).unwrap().attach(Latency::new()).unwrap();
        let function = find::<Add>(&name("add"));
        REPLACED.store(0, Relaxed);
        let (own, other) = thread::scope(|scope| {
            let threads: Vec<_> = (0..3).map(|_| scope.spawn(move || calls(CALLS))).collect();
            while threads.iter().any(|thread| !thread.is_finished()) {
                // SAFETY: of the function's type.
                let older = unsafe { function.replace(add) }.unwrap();
                // SAFETY: as above.
                drop(unsafe { function.replace(counted) }.unwrap());
                drop(older);
            }
            let results = threads.into_iter().map(|thread| thread.join().unwrap());
            results
                .fold((0, 0), |(own, other), result| (own + (result >> 32), other + (result & 0xffff_ffff)))
        });
        assert_eq!(own + other, 3 * CALLS);
        assert!(own != 0 && other != 0 && REPLACED.load(Relaxed) <= other, "{own} {other}");
        assert_eq!(count.total(), 3 * CALLS);
        let expected = 3 * (CALLS * (CALLS - 1) / 2);
        #[expect(clippy::cast_precision_loss, reason = "small")]
        let expected = expected as f64;
        assert_eq!(sum.groups().iter().next().unwrap().sum().to_bits(), expected.to_bits());
        let measured = latency.latencies().iter().map(FunctionLatency::calls).sum::<u64>();
        assert_eq!(measured, own, "calls of the original alone have exits");
        drop((count, sum, latency));
    }
}
