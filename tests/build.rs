//! Exports the hooks of `-finstrument-functions` from test programs: shared objects that a test
//! loads at run time find them there.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux") {
        println!("cargo::rustc-link-arg-tests=-Wl,--export-dynamic-symbol=__cyg_profile_func_*");
    }
}
