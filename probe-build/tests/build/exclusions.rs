//! The selection of functions that get sites.

use std::collections::BTreeSet;

use probe_build::{Build, Exclusion, Outcome};

use crate::place::{Compiler, build, directory, source};

/// Returns each excluded function's path and reason.
fn excluded(
    configure: impl Fn(&mut Build),
    name: &str,
    compiler: Compiler,
    file: &str,
) -> BTreeSet<(String, String)> {
    let is_cpp = file.contains("cpp");
    let mut build = build(&directory(&format!("{name}-{compiler:?}")), compiler.name(is_cpp));
    build.cpp(is_cpp).system_headers(true).file(source(file));
    configure(&mut build);
    let (_, report) = build.try_compile_intermediates().expect("it compiles");
    let why = |outcome: &Outcome| match outcome {
        Outcome::Excluded(Exclusion::Function(glob) | Exclusion::File(glob)) => Some(glob.clone()),
        Outcome::Excluded(Exclusion::SystemHeader) => Some("system".to_owned()),
        Outcome::Excluded(Exclusion::TooSmall { instructions, minimum }) => {
            assert!(instructions < minimum);
            Some("small".to_owned())
        }
        _ => None,
    };
    let excluded: BTreeSet<_> =
        report.functions().filter_map(|it| Some((it.path().to_owned(), why(it.outcome())?))).collect();
    assert!(report.placed() > 0, "{report}");
    excluded
}

fn pairs(pairs: &[(&str, &str)]) -> BTreeSet<(String, String)> {
    pairs.iter().map(|(path, why)| ((*path).to_owned(), (*why).to_owned())).collect()
}

#[test]
fn by_function() {
    for compiler in Compiler::all() {
        let configure = |build: &mut Build| {
            build.exclude_functions("left_*").exclude_functions("s*p");
        };
        let found = excluded(configure, "by-function", compiler, "left/part.c");
        assert_eq!(found, pairs(&[("left_part", "left_*"), ("step", "s*p")]));
    }
}

#[test]
fn by_function_of_cpp() {
    for compiler in Compiler::all_or_one(Compiler::Gcc) {
        let configure = |build: &mut Build| {
            build
                .exclude_functions("geo::Stack<int>::*")
                .exclude_functions("std::*")
                .exclude_functions("*gnu_cxx::*");
        };
        let found = excluded(configure, "by-cpp-function", compiler, "shapes.cpp");
        let ours: BTreeSet<_> = found.into_iter().filter(|(path, _)| path.starts_with("geo::")).collect();
        assert_eq!(
            ours,
            pairs(&[
                ("geo::Stack<int>::push", "geo::Stack<int>::*"),
                ("geo::Stack<int>::pop", "geo::Stack<int>::*"),
            ])
        );
    }
}

#[test]
fn by_file() {
    for compiler in Compiler::all() {
        let configure = |build: &mut Build| {
            build.exclude_files("**/include/*.h").exclude_files("*.c");
        };
        // A single star stays within a directory.
        let found = excluded(configure, "by-file", compiler, "left/part.c");
        assert_eq!(found, pairs(&[("shared_twice", "**/include/*.h")]));
    }
}

#[test]
fn by_size() {
    for compiler in Compiler::all() {
        let configure = |build: &mut Build| {
            build.min_instructions(12);
        };
        let found = excluded(configure, "by-size", compiler, "left/part.c");
        assert!(found.contains(&("shared_twice".to_owned(), "small".to_owned())), "{found:?}");
        assert!(!found.contains(&("sum_of".to_owned(), "small".to_owned())), "{found:?}");
    }
}

#[test]
fn system_headers() {
    for compiler in Compiler::all_or_one(Compiler::Clang) {
        let configure = |build: &mut Build| {
            build.system_headers(false);
        };
        let found = excluded(configure, "system", compiler, "shapes.cpp");
        assert!(!found.is_empty());
        for (path, why) in &found {
            assert_eq!(why, "system");
            assert!(!path.starts_with("geo::") && path != "main" && path != "measure", "{path}");
        }
        // `system_headers` excludes no function.
        assert_eq!(excluded(|_| {}, "system-too", compiler, "shapes.cpp"), BTreeSet::new());
    }
    for compiler in Compiler::all() {
        // `-isystem` turns a directory of the project into a system directory.
        let configure = |build: &mut Build| {
            build.system_headers(false).flag("-isystem").flag(source("include"));
        };
        let found = excluded(configure, "isystem", compiler, "left/part.c");
        assert_eq!(found, pairs(&[("shared_twice", "system")]));
    }
}
