//! `throughput`: how many calls executors make of an instruction that another thread toggles, by
//! its rate. See figures 12 to 14 of "Living on the edge".

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
