//! Code that the macros accept (`ok`, which also runs) and refuse (`err`, with the user's message).
//!
//! The messages are those of the newest stable Rust. After one has changed,
//! `TRYBUILD=overwrite cargo test -p probe-ui-tests` writes them anew; read them as a user would.

// Once is enough: the messages are the same.
#![cfg(not(probe_portable))]

#[test]
fn ok() {
    trybuild::TestCases::new().pass("ok/*.rs");
}

#[test]
fn err() {
    trybuild::TestCases::new().compile_fail("err/*.rs");
}
