//! `wordpatch`: replacing one instruction, within a word or across two cache lines, one by one or a
//! thousand at a time.

#[cfg(not(any(probe_off, probe_portable, probe_seen)))]
mod run;

#[cfg(not(any(probe_off, probe_portable, probe_seen)))]
fn main() {
    run::run();
}

#[cfg(any(probe_off, probe_portable, probe_seen))]
fn main() {
    println!("instructions are not patched in this build");
}
