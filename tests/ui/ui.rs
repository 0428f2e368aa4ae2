//! Code that the macros refuse (`err`, with the user's message). The test `accepted` has the rest.
//!
//! The messages are those of the newest stable Rust. After one has changed,
//! `TRYBUILD=overwrite cargo test -p probe-ui-tests` writes them anew; read them as a user would.

// Once is enough: the messages are the same.
#![cfg(not(probe_portable))]

#[test]
fn err() {
    trybuild::TestCases::new().compile_fail("err/*.rs");
}
