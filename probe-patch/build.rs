//! Decides once whether this target's code is patched, so that the sources look at one cfg only.
//! `probe_backend` is `patched` or `portable`, as in `probe-runtime`. It is never `off`: a program
//! without probes still has code to patch.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is_set = |name: &str| env::var_os(format!("CARGO_CFG_{name}")).is_some();
    let target = |name: &str| env::var(format!("CARGO_CFG_TARGET_{name}")).unwrap_or_default();
    let patches = target("ARCH") == "x86_64" && target("POINTER_WIDTH") == "64" && target("OS") == "linux";
    // Miri executes no text, but checks what surrounds that, if asked.
    let is_interpreted = is_set("PROBE_SEEN") || is_set("MIRI") && !is_set("PROBE_IN_PLACE");
    let is_portable = !patches || is_set("PROBE_PORTABLE") || is_interpreted;
    println!("cargo::rustc-cfg=probe_backend=\"{}\"", if is_portable { "portable" } else { "patched" });
}
