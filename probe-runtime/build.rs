//! Decides the backend once, so that the sources look at one cfg only.
//!
//! `probe_backend` is `x86_64` (sites are patched in place), `portable` (an atomic flag and a branch)
//! or `off` (no code at all). It follows the target, never the host.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(probe_backend, values(\"x86_64\", \"portable\", \"off\"))");
    println!("cargo::rustc-check-cfg=cfg(probe_off)");
    println!("cargo::rustc-check-cfg=cfg(probe_portable)");
    println!("cargo::rustc-cfg=probe_backend=\"{}\"", backend());
}

fn backend() -> &'static str {
    let is_set = |name: &str| env::var_os(format!("CARGO_CFG_{name}")).is_some();
    let target = |name: &str| env::var(format!("CARGO_CFG_TARGET_{name}")).unwrap_or_default();
    // Where `linkme` can collect the definitions.
    let collects =
        ["linux", "android", "fuchsia", "macos", "ios", "tvos", "windows", "freebsd", "openbsd", "illumos"];
    // Miri has no linker, so there is nothing that collects the definitions.
    if is_set("PROBE_OFF") || is_set("MIRI") || !collects.contains(&target("OS").as_str()) {
        return "off";
    }
    let patches = target("ARCH") == "x86_64" && target("POINTER_WIDTH") == "64" && target("OS") == "linux";
    if patches && !is_set("PROBE_PORTABLE") { "x86_64" } else { "portable" }
}
