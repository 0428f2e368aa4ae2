//! `callpatch`: switching CALLs of five bytes, one in ten of which lies across two aligned words,
//! beside the bare write instructions.

#[cfg(not(any(probe_off, probe_portable)))]
mod passes;

#[cfg(not(any(probe_off, probe_portable)))]
fn main() {
    passes::run();
}

#[cfg(any(probe_off, probe_portable))]
fn main() {
    println!("sites are not patched in this build");
}
