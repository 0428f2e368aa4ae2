//! Code that the macros refuse (`err`, with the user's message). The test `accepted` has the rest.
//!
//! The messages are those of the newest stable Rust. After one has changed,
//! `TRYBUILD=overwrite cargo test -p probe-ui-tests` writes them anew; read them as a user would.

// Once is enough: the messages are the same.
#![cfg(not(probe_portable))]

use std::env;
use std::path::Path;

#[test]
fn err() {
    share_macros();
    trybuild::TestCases::new().compile_fail("err/*.rs");
}

/// Makes the cargo of `trybuild` use the procedural macros of the fixtures. `src/fixture.rs` of
/// `probe-tests` names their folder, and `src/nested.rs` their settings.
fn share_macros() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("build");
    let settings = [
        ("CARGO_BUILD_BUILD_DIR", folder.as_os_str()),
        ("CARGO_PROFILE_DEV_BUILD_OVERRIDE_DEBUG", "0".as_ref()),
        ("CARGO_PROFILE_DEV_BUILD_OVERRIDE_CODEGEN_UNITS", "16".as_ref()),
    ];
    for (key, value) in settings {
        // SAFETY: this program has one test, so no other thread uses the environment.
        unsafe { env::set_var(key, value) };
    }
}
