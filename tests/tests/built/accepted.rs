//! Code that the macros accept: each program in `accepted` compiles, and runs without a failure.
//! The code that they refuse is in `ui`.

// Once is enough: the expansions are checked for each backend elsewhere.
#![cfg(not(any(probe_portable, probe_off)))]

use std::fs;
use std::path::Path;

use probe_tests::fixture::Configuration;

#[test]
fn accepted_code_runs() {
    let configuration = Configuration::new(env!("CARGO_TARGET_TMPDIR"), "accepted", "debug").linted();
    let built = configuration.build("accepted");
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("accepted/src/bin");
    let sources: Vec<_> = fs::read_dir(sources).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(!sources.is_empty());
    for source in sources {
        built.run(source.file_stem().unwrap().to_str().unwrap(), &[]);
    }
}
