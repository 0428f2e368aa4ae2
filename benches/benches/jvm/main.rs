//! `jvm`: switching a call site with the JVM's `MutableCallSite` and `VolatileCallSite`, beside
//! `patch::call` in the same run.

#[cfg(not(any(probe_off, probe_portable, probe_seen)))]
mod run;

#[cfg(not(any(probe_off, probe_portable, probe_seen)))]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    run::run()
}

#[cfg(any(probe_off, probe_portable, probe_seen))]
fn main() {
    println!("instructions are not patched in this build");
}
