//! A compressor that others wrote, `miniz_oxide`: a program of its own, since the crate is patched as text.

use std::fs;
use std::path::{Path, PathBuf};

use probe_tests::crates::{Copy, Dependency, Driver, MINIZ_OXIDE, Places};

const MAIN: &str = "\
mod driver;
mod watched;

fn main() -> Result<(), probe_runtime::Error> {
    let [_, _, work, input] = &std::env::args().collect::<Vec<_>>()[..] else { panic!(\"three arguments\") };
    let text = std::fs::read(input).expect(\"the input\");
    let work = work.parse().expect(\"an amount\");
    let by = std::env::var(watched::VARIABLE).expect(\"what to attach\");
    watched::run(&by, \"miniz_oxide::**\", || assert!(driver::work(&text, work) > 0))
}
";

/// Builds the program below `root`, with a probe in each of the crate's functions that can take one.
pub fn build(root: &Path) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let runtime = here.parent().expect("the workspace").join("probe-runtime");
    let dependency = Dependency {
        kind: "dependencies",
        name: "probe-runtime",
        package: "probe-runtime",
        folder: &runtime,
    };
    let folder = root.join("deflate");
    let copy =
        Copy::patched(&MINIZ_OXIDE, &folder.join(MINIZ_OXIDE.name), Places::Functions, &[dependency], "");
    let driver = fs::read_to_string(here.join("drivers/miniz_oxide.rs")).expect("the driver");
    let driver = Driver {
        of: &MINIZ_OXIDE,
        copy: &copy,
        dependencies: &format!(
            "probe-runtime = {{ path = '{}', features = [\"profiler\"] }}\n",
            runtime.display()
        ),
        sources: &[("main.rs", MAIN), ("driver.rs", &driver), ("watched.rs", include_str!("watched.rs"))],
    };
    driver.build(&folder.join("driver"), &folder.join("target"))
}
