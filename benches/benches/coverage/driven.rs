//! Third-party crates, each with a driver in `../../drivers`. They are separate programs, since the
//! bench patches the crates' sources.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use probe_tests::crates::{
    AHO_CORASICK, Copy, Crate, Dependency, Driver, GIF, LZ4_FLEX, MINIJINJA, MINIZ_OXIDE, PULLDOWN_CMARK,
    Places, REGEX_AUTOMATA, REGEX_SYNTAX, SERDE_JSON, TAFFY, TWOX_HASH, WEEZL,
};

use super::program::Input;

/// A crate and its driver.
#[derive(Clone, Copy, Debug)]
pub struct Driven {
    pub name: &'static str,
    pub input: Input,
    /// Work for about a quarter of a second.
    pub work: u64,
    of: Crate,
    /// Dependencies of the crate that are patched, too.
    with: &'static [Crate],
    probes: &'static str,
}

const fn driven(name: &'static str, of: Crate, probes: &'static str, work: u64) -> Driven {
    Driven { name, input: Input::Text, work, of, with: &[], probes }
}

pub const DEFLATE: Driven = driven("deflate", MINIZ_OXIDE, "miniz_oxide::**", 1);

/// All crates.
pub const DRIVEN: [Driven; 9] = [
    DEFLATE,
    Driven { with: &[REGEX_SYNTAX, AHO_CORASICK], ..driven("regexes", REGEX_AUTOMATA, REGEXES, 4) },
    driven("values", SERDE_JSON, "serde_json::**", 25),
    driven("lz4", LZ4_FLEX, "lz4_flex::**", 12),
    Driven { input: Input::Prose, ..driven("markdown", PULLDOWN_CMARK, "pulldown_cmark::**", 300) },
    Driven { input: Input::None, ..driven("layout", TAFFY, "taffy::**", 50) },
    Driven { with: &[WEEZL], ..driven("pictures", GIF, "gif::**, weezl::**", 20) },
    driven("templates", MINIJINJA, "minijinja::**", 80),
    driven("hashes", TWOX_HASH, "twox_hash::**", 30),
];

/// `borrow` is excluded: the number of its calls depends on the order of a hash table, which
/// differs between runs.
const REGEXES: &str = "regex_automata::**, regex_syntax::**, aho_corasick::**, \
                       !regex_automata::util::determinize::state::borrow";

const MAIN: &str = "\
mod driver;
mod watched;

fn main() -> Result<(), probe_runtime::Error> {
    let [_, _, work, input] = &std::env::args().collect::<Vec<_>>()[..] else { panic!(\"three arguments\") };
    let text = if input.is_empty() { String::new() } else { std::fs::read_to_string(input).expect(\"the input\") };
    let work = work.parse().expect(\"an amount\");
    let by = std::env::var(watched::VARIABLE).expect(\"what to attach\");
    watched::run(&by, PROBES, || watched::in_threads(work, |work| assert!(driver::work(&text, work) > 0)))
}
";

impl Driven {
    /// Builds the program below `root`, with a probe in each of the crate's functions that can have
    /// one.
    pub fn build(&self, root: &Path) -> PathBuf {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let runtime = here.parent().expect("the workspace").join("probe-runtime");
        let dependency = Dependency {
            kind: "dependencies",
            name: "probe-runtime",
            package: "probe-runtime",
            folder: &runtime,
        };
        let folder = root.join(self.name);
        let copy = |it: &Crate| {
            let copy = Copy::patched(it, &folder.join(it.name), Places::Functions, &[dependency], "");
            println!("{}: {}: {}", self.name, it.name, copy.tally);
            copy
        };
        let mut dependencies = format!(
            "probe-runtime = {{ path = '{}', features = [\"profiler\", \"latency\"] }}\n",
            runtime.display()
        );
        if !self.with.is_empty() {
            dependencies.push_str("\n[patch.crates-io]\n");
        }
        for it in self.with {
            writeln!(dependencies, "{} = {{ path = '{}' }}", it.name, copy(it).folder.display())
                .expect("memory");
        }
        let source = here.join("drivers").join(self.of.name.replace('-', "_")).with_extension("rs");
        let driver = Driver {
            of: &self.of,
            copy: &copy(&self.of),
            dependencies: &dependencies,
            sources: &[
                ("main.rs", &format!("{MAIN}\nconst PROBES: &str = \"{}\";\n", self.probes)),
                ("driver.rs", &fs::read_to_string(source).expect("the driver")),
                ("watched.rs", include_str!("watched.rs")),
            ],
        };
        driver.build(&folder.join("driver"), &root.join("target").join(self.name))
    }
}
