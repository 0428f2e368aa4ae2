//! `rebuild`: processor seconds of builds by `cargo probe`, beside cargo's own: of a whole crate,
//! its dependencies being built, and of the build after one edit.
//!
//! The crates are other people's. `cargo probe` is this program, which cargo calls back under other
//! names.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{env, fs};

use probe_benches::cost::{self, Cost};
use probe_benches::{Scale, figure, median};
use probe_tests::crates::{Copy, Crate, MINIJINJA, MINIZ_OXIDE, PULLDOWN_CMARK, SERDE_JSON, TAFFY};
use probe_tests::nested::cargo_into;

fn main() -> ExitCode {
    let mut arguments = env::args_os();
    let own = arguments.next().map(PathBuf::from).expect("a name");
    let is_own = own.file_name().is_some_and(|it| it.as_encoded_bytes().starts_with(b"rebuild"));
    if !is_own || arguments.next().is_some_and(|it| it == "probe") {
        return cargo_probe::main();
    }
    let scale = Scale::from_args();
    let all = [MINIZ_OXIDE, SERDE_JSON, TAFFY, PULLDOWN_CMARK, MINIJINJA];
    let crates = if scale == Scale::Full { &all[..] } else { &all[..1] };
    for it in crates {
        compare(it, scale.of(7));
    }
    ExitCode::SUCCESS
}

fn compare(it: &Crate, rounds: u64) {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("rebuild");
    let copy = Copy::plain(it, &root.join(it.name));
    let source = copy.folder.join("src/lib.rs");
    let text = fs::read_to_string(&source).expect("its source");
    let edit = |round: u64| {
        let edited = format!("{text}\n#[allow(dead_code)]\nfn edited() -> u64 {{ {round} }}\n");
        fs::write(&source, edited).expect("a file can be written");
    };
    let build = |is_probed: bool| -> Cost {
        let target = root.join("target").join(it.name);
        let mut cargo = cargo_into(&copy.folder, "build", &target);
        if is_probed {
            let mut probed = Command::new(env::current_exe().expect("this program"));
            probed.arg("probe").args(cargo.get_args()).current_dir(&copy.folder);
            for (key, value) in cargo.get_envs() {
                match value {
                    Some(value) => probed.env(key, value),
                    None => probed.env_remove(key),
                };
            }
            probed.env("XDG_CACHE_HOME", root.join("cache"));
            cargo = probed;
        }
        // As a developer builds, whatever else cargo is told here.
        cost::run(cargo.args(["-q", "--lib", "--offline"]).env("CARGO_INCREMENTAL", "1"))
    };
    // Each builds the dependencies in its folder.
    let _ = [build(false), build(true)];
    let clean = |is_probed: bool| {
        let folder = root.join("target").join(it.name);
        let folder = if is_probed { folder.join("probe") } else { folder };
        let _ = fs::remove_dir_all(folder.join("debug/incremental"));
        build(is_probed)
    };
    let kinds: [(&str, &dyn Fn(bool) -> Cost); 2] = [("whole", &clean), ("edited", &build)];
    for (what, run) in kinds {
        let costs = (0..rounds).map(|round| {
            edit(round);
            [run(false), run(true)].map(|it| it.processor_seconds)
        });
        let costs: Vec<_> = costs.collect();
        let [plain, probed] = [0, 1].map(|which| median(costs.iter().map(|it| it[which]).collect()));
        let name = format!("rebuild/{}-{what}-processor-seconds", it.name);
        figure(&name, format_args!("{probed:.2}"), "s", probed / plain, "cargo build");
    }
    fs::write(&source, &text).expect("a file can be written");
}
