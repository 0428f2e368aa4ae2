//! What the macros accept (`ui/ok`, which also run) and refuse (`ui/err`, with the message that the user sees).
//!
//! The messages are those of the newest stable Rust. After a change of one, `TRYBUILD=overwrite cargo test --test ui`
//! writes them anew; read them as a user would.

// Once is enough: the messages are the same.
#![cfg(not(probe_portable))]

#[test]
fn ok() {
    trybuild::TestCases::new().pass("ui/ok/*.rs");
}

#[test]
fn err() {
    trybuild::TestCases::new().compile_fail("ui/err/*.rs");
}
