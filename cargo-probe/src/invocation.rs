//! A command line of rustc, as far as it tells of the crate.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// A command line of rustc.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Invocation {
    /// The crate's name.
    pub crate_name: String,
    /// The file of its root, as given.
    pub root: PathBuf,
    /// Which argument that is.
    root_at: usize,
    /// Its edition.
    pub edition: String,
    /// The target; `None` for that of the compiler.
    pub target: Option<String>,
    /// The effect of its panics, if that is given: `unwind` or `abort`.
    pub panic: Option<String>,
    /// The end of its files' names.
    extra: String,
    /// The folder of its files.
    out: PathBuf,
    /// Whether it is built for tests.
    pub is_test: bool,
    /// Whether it becomes a program: tests, too.
    pub is_program: bool,
    /// Whether it runs in the compiler, or for cargo: a procedural macro, a build script.
    pub is_for_compiler: bool,
}

impl Invocation {
    /// Reads the arguments of rustc; `None` if they compile no crate in a file.
    pub fn of(arguments: &[OsString]) -> Option<Self> {
        let mut read = Self { edition: "2015".to_owned(), root_at: usize::MAX, ..Self::default() };
        let mut at = 0;
        while let Some(argument) = arguments.get(at) {
            let text = argument.to_str()?;
            if text == "-" || text.starts_with('@') || text.starts_with("--print") {
                return None;
            }
            let (key, value) = match text.split_once('=') {
                Some((key, value)) if key.starts_with("--") => (key, Some(value)),
                _ if text.starts_with("-C") && text.len() > 2 => ("-C", Some(&text[2..])),
                _ => (text, None),
            };
            let takes_value = TAKE_VALUES.contains(&key);
            let value = match value {
                None if takes_value => {
                    at += 1;
                    arguments.get(at).and_then(|it| it.to_str())
                }
                value => value,
            };
            let value = value.unwrap_or_default();
            match key {
                "--crate-name" => value.clone_into(&mut read.crate_name),
                "--edition" => value.clone_into(&mut read.edition),
                "--target" => read.target = Some(value.to_owned()),
                "--test" => (read.is_test, read.is_program) = (true, true),
                "--out-dir" => read.out = value.into(),
                "--crate-type" => {
                    read.is_for_compiler |= value == "proc-macro";
                    read.is_program |= value == "bin";
                }
                "--extern" => read.is_for_compiler |= value == "proc_macro",
                "-C" | "--codegen" => {
                    if let Some(extra) = value.strip_prefix("extra-filename=") {
                        extra.clone_into(&mut read.extra);
                    } else if let Some(panic) = value.strip_prefix("panic=") {
                        read.panic = Some(panic.to_owned());
                    }
                }
                _ if !text.starts_with('-') && Path::new(text).extension() == Some(OsStr::new("rs")) => {
                    read.root = text.into();
                    read.root_at = at;
                }
                _ => {}
            }
            at += 1;
        }
        read.is_for_compiler |= read.crate_name.starts_with("build_script_");
        (!read.crate_name.is_empty() && read.root_at != usize::MAX).then_some(read)
    }

    /// Returns the arguments, with another root.
    pub fn with_root(&self, arguments: &[OsString], root: &Path) -> Vec<OsString> {
        let mut arguments = arguments.to_vec();
        arguments[self.root_at] = root.into();
        arguments
    }

    /// Returns the file in which the compiler lists those that it has read.
    pub fn files_read(&self) -> PathBuf {
        self.out.join(format!("{}.d", self.unit_name()))
    }

    /// Returns a name that no other crate of the build has.
    pub fn unit_name(&self) -> String {
        format!("{}{}", self.crate_name, self.extra)
    }
}

/// Options whose value may be the next argument.
const TAKE_VALUES: [&str; 20] = [
    "--crate-name", "--edition", "--target", "--crate-type", "--extern", "-C", "--codegen", "-L", "-l", "-o",
    "--out-dir", "--emit", "--cfg", "--check-cfg", "--cap-lints", "--error-format", "--json",
    "--remap-path-prefix", "--sysroot", "-Z",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Option<Invocation> {
        let arguments: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        Invocation::of(&arguments)
    }

    #[test]
    fn as_cargo_calls_it() {
        let read = of(
            "--crate-name net --edition=2021 src/lib.rs --error-format=json --json=artifacts --crate-type lib \
             --emit=dep-info,metadata,link -C panic=abort -C metadata=1f -C extra-filename=-2e --out-dir /t/deps \
             --target x86_64-unknown-linux-gnu -C incremental=/t/incremental --extern a=/t/deps/liba.rmeta",
        )
        .unwrap();
        assert_eq!(
            (read.crate_name.as_str(), read.root.to_str(), read.edition.as_str()),
            ("net", Some("src/lib.rs"), "2021")
        );
        assert_eq!(
            (read.unit_name().as_str(), read.target.as_deref()),
            ("net-2e", Some("x86_64-unknown-linux-gnu"))
        );
        assert_eq!(read.files_read(), Path::new("/t/deps/net-2e.d"));
        assert!(!read.is_test && !read.is_for_compiler && read.panic.as_deref() == Some("abort"));
        let arguments: Vec<OsString> = ["--crate-name", "a", "a.rs"].map(Into::into).into();
        let read = Invocation::of(&arguments).unwrap();
        assert_eq!(read.edition, "2015");
        assert_eq!(read.with_root(&arguments, Path::new("/m/a.rs")), ["--crate-name", "a", "/m/a.rs"]);
    }

    #[test]
    fn what_gets_no_probes() {
        assert_eq!(of("-vV"), None);
        assert_eq!(of("- --crate-name ___ --print=file-names --crate-type bin"), None);
        assert_eq!(of("--crate-name a @/t/arguments"), None);
        for line in [
            "--crate-name build_script_build build.rs",
            "--crate-name m src/lib.rs --crate-type proc-macro",
            "--crate-name m src/lib.rs --test --extern proc_macro",
        ] {
            assert!(of(line).unwrap().is_for_compiler, "{line}");
        }
    }
}
