//! Exports the hooks of `-finstrument-functions` from the bench's program to the shared objects
//! that it loads.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux") {
        println!("cargo::rustc-link-arg-benches=-Wl,--export-dynamic-symbol=__cyg_profile_func_*");
    }
}
