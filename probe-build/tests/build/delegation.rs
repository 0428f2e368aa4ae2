//! `Build` has every builder method of cc: the test reads cc's source and compares it with ours.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the directory of the sources of cc in use.
fn cc() -> PathBuf {
    let output = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        // Only this platform: packages of other platforms may not have been fetched.
        .args(["metadata", "--offline", "--format-version", "1", "--filter-platform", crate::place::TARGET])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata = String::from_utf8(output.stdout).expect("text");
    let manifests = metadata.split("\"manifest_path\":\"").skip(1).filter_map(|rest| rest.split('"').next());
    let is_cc = |path: &Path| {
        let name = path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
        name.strip_prefix("cc-").is_some_and(|version| version.starts_with(|c: char| c.is_ascii_digit()))
    };
    manifests
        .map(PathBuf::from)
        .find(|path| is_cc(path))
        .expect("cc among the dependencies")
        .with_file_name("src")
}

/// Returns the public methods that take `&mut self`. Hidden ones are not part of the interface.
fn builders(source: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (at, _) in source.match_indices("pub fn ") {
        let rest = &source[at + "pub fn ".len()..];
        let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        let signature = rest.split('{').next().unwrap_or_default();
        let attributes = source[..at].rsplit("\n\n").next().unwrap_or_default();
        if signature.contains("&mut self") && !attributes.contains("#[doc(hidden)]") {
            names.insert(name);
        }
    }
    names
}

#[test]
fn no_builder_method_is_missing() {
    let theirs = builders(&fs::read_to_string(cc().join("lib.rs")).expect("cc's source"));
    assert!(theirs.len() >= 54, "{theirs:?}");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/build/settings.rs");
    let source = fs::read_to_string(path).expect("our source");
    let (settings, delegated) = source.split_once("macro_rules! delegate {").expect("the macro");
    let listed =
        delegated.split_once("delegate! {\n").expect("the list").1.split_once("\n}").expect("its end").0;
    let mut ours: BTreeSet<String> =
        listed.lines().filter_map(|line| line.trim().split(' ').next()).map(str::to_owned).collect();
    ours.extend(builders(&delegated[delegated.find("delegate! {").expect("the list")..]));
    ours.extend(builders(settings));
    let missing: Vec<_> = theirs.difference(&ours).collect();
    assert_eq!(missing, [] as [&String; 0], "cc has them, probe_build::Build has not");
    let own: Vec<_> = ours.difference(&theirs).map(String::as_str).collect();
    assert_eq!(
        own,
        ["configure_cc", "exclude_files", "exclude_functions", "min_instructions", "sites", "system_headers"]
    );
}

/// `Build` passes its settings on to cc's builder.
#[test]
fn getters_see_what_was_set() {
    let mut build = probe_build::Build::new();
    build
        .target(crate::place::TARGET)
        .host(crate::place::TARGET)
        .opt_level(3)
        .debug(false)
        .compiler("gcc")
        .cargo_metadata(false)
        .flag("-DONE")
        .define("TWO", None)
        .define("THREE", "3")
        .files(["a.c", "b.c"])
        .file("c.c");
    build.configure_cc(|cc| {
        cc.flag("-DFOUR");
    });
    assert_eq!(
        build.get_files().map(|path| path.to_str().unwrap()).collect::<Vec<_>>(),
        ["a.c", "b.c", "c.c"]
    );
    build.file("d.c");
    assert_eq!(build.get_files().count(), 4);
    let compiler = build.get_compiler();
    let arguments: Vec<_> = compiler.args().iter().filter_map(|it| it.to_str()).collect();
    for flag in ["-O3", "-DONE", "-DTWO", "-DTHREE=3", "-DFOUR"] {
        assert!(arguments.contains(&flag), "{flag}: {arguments:?}");
    }
    assert_eq!(compiler.path(), Path::new("gcc"));
}
