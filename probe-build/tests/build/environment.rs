//! The effects of cargo's environment, and the output for cargo. Each scenario is a child process:
//! this test binary, executed once more.

use std::env;
use std::path::PathBuf;
use std::process::{Command, Output};

use probe_build::{Build, FunctionReport, PlainReason};

use crate::objects::Elf;
use crate::place::{TARGET, directory, source, write};

const SCENARIO: &str = "PROBE_BUILD_SCENARIO";

/// Runs the child's part of this test like a build script.
fn as_build_script(test: &str, variables: &[(&str, &str)]) -> Output {
    as_build_script_with(test, variables, |_| {})
}

/// Like [`as_build_script`], with a last change to the command.
fn as_build_script_with(
    test: &str,
    variables: &[(&str, &str)],
    configure: impl FnOnce(&mut Command),
) -> Output {
    let out_dir = directory(test);
    let mut command = Command::new(env::current_exe().expect("this program"));
    command
        .args(["--exact", &format!("environment::{test}"), "--nocapture", "--test-threads=1"])
        .env(SCENARIO, "1")
        .env("OUT_DIR", &out_dir)
        .env("TARGET", TARGET)
        .env("HOST", TARGET)
        .env("OPT_LEVEL", "2")
        .env("CC", "gcc");
    command.envs(variables.iter().copied());
    configure(&mut command);
    let output = command.output().expect("the child runs");
    assert!(output.status.success(), "{output:?}");
    output
}

fn is_child() -> bool {
    env::var_os(SCENARIO).is_some()
}

/// Returns the warnings among the lines for cargo.
fn warnings(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stdout);
    // The test harness may have printed the beginning of the line.
    text.lines()
        .filter_map(|line| line.split_once("cargo:warning=").map(|(_, warning)| warning.to_owned()))
        .collect()
}

fn two_files() -> Build {
    let mut build = Build::new();
    build.files([source("left/part.c"), source("right/part.c")]).include(source("include"));
    build
}

/// Checks that both objects are plain, for this reason.
fn assert_plain(build: &Build, reason: &PlainReason) {
    let report = build.try_compile("two").expect("it compiles");
    assert_eq!(report.files().len(), 2);
    for file in report.files() {
        assert_eq!(file.plain(), Some(reason));
        assert_eq!(Elf::read(file.object()).nops(), 0);
    }
}

#[test]
fn probes_are_off() {
    if is_child() {
        return assert_plain(&two_files(), &PlainReason::Off);
    }
    let output = as_build_script("probes_are_off", &[("CARGO_CFG_PROBE_OFF", "")]);
    assert_eq!(warnings(&output), [] as [&str; 0]);
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(printed.contains("cargo:rustc-link-lib=static=two\n"), "{printed}");
}

#[test]
fn the_backend_is_portable() {
    if is_child() {
        return assert_plain(&two_files(), &PlainReason::Portable);
    }
    let output = as_build_script("the_backend_is_portable", &[("CARGO_CFG_PROBE_PORTABLE", "")]);
    assert_eq!(
        warnings(&output),
        ["C and C++ code has no probes: code is not patched under --cfg probe_portable"]
    );
}

#[test]
fn flags_of_the_environment_count() {
    if is_child() {
        return assert_plain(&two_files(), &PlainReason::Flag("-flto".to_owned()));
    }
    let output = as_build_script("flags_of_the_environment_count", &[("CFLAGS", "-flto -ffat-lto-objects")]);
    assert_eq!(warnings(&output), ["C and C++ code has no probes: sites are not placed with -flto"]);
}

#[test]
fn defaults_may_be_left_out() {
    if is_child() {
        let (_, report) = two_files().compile_intermediates();
        assert_eq!(report.placed(), 8, "{report}");
        return;
    }
    let variables = [("CRATE_CC_NO_DEFAULTS", "1"), ("CFLAGS", "-O1 -Wunused-variable")];
    assert_eq!(warnings(&as_build_script("defaults_may_be_left_out", &variables)), [] as [&str; 0]);
}

/// The output passes on each warning and each error of the compiler once.
#[test]
fn the_compilers_words_are_passed_on_once() {
    let directory = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    if is_child() {
        let careless = write(&directory, "careless.c", "int f(void) { int unused; return 1; }\n");
        let (_, report) = Build::new().file(careless).compile_intermediates();
        assert_eq!(report.placed(), 1);
        let wrong = write(&directory, "wrong.c", "int f(void) { return undeclared; }\n");
        assert!(Build::new().file(wrong).try_compile_intermediates().is_err());
        return;
    }
    let output = as_build_script("the_compilers_words_are_passed_on_once", &[]);
    let said = |text: &str| warnings(&output).iter().filter(|line| line.contains(text)).count();
    assert_eq!((said("unused variable"), said("error: 'undeclared'")), (1, 1), "{:?}", warnings(&output));
    assert_eq!(said("no probes"), 0);
}

/// Some functions are named, and the others counted. Without cargo there is no output.
#[test]
fn left_out_functions_are_named() {
    let directory = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    if is_child() {
        let naked = |n| format!("__attribute__((naked)) void naked_{n}(void) {{ __asm__(\"ret\"); }}\n");
        let text: String = (0..8).map(naked).collect();
        let file = write(&directory, "naked.c", &format!("{text}int f(void) {{ return 1; }}\n"));
        let (_, report) = Build::new().file(&file).compile_intermediates();
        assert_eq!((report.placed(), report.left_out()), (1, 8), "{report}");
        let (_, quiet) = Build::new().file(&file).cargo_metadata(false).compile_intermediates();
        assert_eq!(quiet.left_out(), 8);
        return;
    }
    let output = as_build_script("left_out_functions_are_named", &[]);
    let warnings = warnings(&output);
    let named = warnings.iter().filter(|line| line.contains("naked.c: no probes in `naked_")).count();
    assert_eq!((named, warnings.len()), (5, 6), "{warnings:?}");
    assert!(warnings[5].contains("naked.c: no probes in 3 more functions"), "{warnings:?}");
}

/// Build scripts use relative paths.
#[test]
fn relative_paths() {
    if is_child() {
        env::set_current_dir(source("")).expect("the sources");
        let mut build = Build::new();
        let (_, report) =
            build.files(["left/part.c", "right/part.c"]).include("include").compile_intermediates();
        let told: Vec<_> =
            report.functions().filter(|it| it.path() == "step").map(FunctionReport::file).collect();
        assert_eq!(told, ["left/part.c", "right/part.c"]);
        return;
    }
    as_build_script("relative_paths", &[]);
}

/// `probe.h` is found, after the project's own headers.
#[test]
fn the_projects_headers_come_first() {
    let directory = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    if is_child() {
        write(&directory, "own/probe.h", "#define OWN 1\n");
        let file = write(&directory, "own.c", "#include <probe.h>\nint f(void) { return OWN; }\n");
        let (_, report) = Build::new().include(directory.join("own")).file(file).compile_intermediates();
        assert_eq!(report.placed(), 1);
        return;
    }
    as_build_script("the_projects_headers_come_first", &[]);
}

/// The jobserver's tokens limit the files that are compiled in parallel, and all tokens are
/// returned.
#[cfg(feature = "parallel")]
#[test]
fn the_jobserver_says_how_many() {
    let directory = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    if is_child() {
        let sources = (0..5)
            .map(|n| write(&directory, &format!("f{n}.c"), &format!("int f{n}(void) {{ return {n}; }}\n")));
        let (objects, report) = Build::new().files(sources).compile_intermediates();
        assert_eq!((objects.len(), report.placed()), (5, 5));
        let functions: Vec<_> = report.functions().map(FunctionReport::path).collect();
        assert_eq!(functions, ["f0", "f1", "f2", "f3", "f4"]);
        return;
    }
    let shims = crate::place::directory("jobserver-shim");
    let shim = crate::shim::Shim::new(&shims, "cc", "gcc").slow();
    let jobserver = jobserver::Client::new(1).expect("a jobserver");
    let variables = [("CC", shim.path()), ("NUM_JOBS", "4")];
    as_build_script_with("the_jobserver_says_how_many", &variables, |command| jobserver.configure(command));
    // This process's own, and one token.
    assert_eq!(shim.most_at_once(), 2);
    assert_eq!(jobserver.available().expect("a jobserver that can be asked"), 1);
}
