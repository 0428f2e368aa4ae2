//! A value without a name is dropped at once, also by the way that rustc proposes.
#![deny(unused_must_use)]

use probe_runtime::{Count, init_from_env, select};

fn counts() -> Result<(), probe_runtime::Error> {
    select("**")?.attach(Count::new())?;
    init_from_env()?;
    Ok(())
}

fn main() {
    counts().unwrap();
}
