//! Errors and their messages.

use probe_build::{Build, Error};

use crate::place::{TARGET, build, directory, source, write};
use crate::shim::Shim;

#[test]
fn a_pattern_that_is_no_glob() {
    let out_dir = directory("pattern");
    let mut build = build(&out_dir, "gcc");
    build.file(source("left/part.c")).exclude_functions("geo::[a");
    let error = build.try_compile("x").unwrap_err();
    assert_eq!(
        error.to_string(),
        "exclude_functions(\"geo::[a\"): unclosed character class; missing ']'; \
         a pattern is a glob such as `geo::*` or `**/vendor/**`"
    );
}

#[test]
fn no_directory() {
    let mut build = Build::new();
    let error = build.target(TARGET).host(TARGET).opt_level(0).file("a.c").try_compile("x").unwrap_err();
    assert!(matches!(error, Error::OutDir), "{error}");
    assert!(error.to_string().ends_with("call out_dir()"));
}

#[test]
fn a_path_that_is_no_file() {
    let out_dir = directory("no-file");
    let error = build(&out_dir, "gcc").file("..").try_compile("x").unwrap_err();
    assert_eq!(error.to_string(), "file(\"..\"): this path has no file name; name a source file");
}

/// The error is cc's, from one compilation to an object. The output of the earlier compilation to
/// assembly is dropped.
#[test]
fn a_mistake_in_the_code() {
    let out_dir = directory("mistake");
    let shim = Shim::new(&out_dir, "cc", "gcc");
    let bad = write(&out_dir, "bad.c", "int f(void) { return undeclared; }\n");
    let error = build(&out_dir, shim.path()).file(bad).try_compile("x").unwrap_err();
    assert!(matches!(error, Error::Cc(_)), "{error}");
    assert!(error.to_string().contains("bad.c"), "{error}");
}

#[test]
fn a_compiler_that_is_not_there() {
    let out_dir = directory("missing");
    let error = build(&out_dir, "/nowhere/gcc").file(source("left/part.c")).try_compile("x").unwrap_err();
    assert!(matches!(error, Error::Cc(_)), "{error}");
    assert!(error.to_string().contains("/nowhere/gcc"), "{error}");
}

#[test]
#[should_panic(expected = "libx.a can't be built: exclude_files(\"{a\")")]
fn compile_panics_with_the_message() {
    build(&directory("panic"), "gcc").file(source("left/part.c")).exclude_files("{a").compile("x");
}
