//! Decides once whether this target's code is patched, so that the sources look at one cfg only.
//! `probe_backend` is `patched` or `portable`, as in `probe-runtime`. It is never `off`: a program
//! without probes still has code to patch.
//! `probe_system` is `linux` where the services in `os` that ask its kernel work, whether code is
//! patched or not.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is_set = |name: &str| env::var_os(format!("CARGO_CFG_{name}")).is_some();
    let target = |name: &str| env::var(format!("CARGO_CFG_TARGET_{name}")).unwrap_or_default();
    let patches = target("ARCH") == "x86_64" && target("POINTER_WIDTH") == "64" && target("OS") == "linux";
    // Miri executes no text, but checks what surrounds that, if asked.
    let is_interpreted = is_set("PROBE_SEEN") || is_set("MIRI") && !is_set("PROBE_IN_PLACE");
    let is_portable = !patches || is_set("PROBE_PORTABLE") || is_interpreted;
    // Architectures whose system calls have the numbers of arguments and the results of x86-64.
    let is_alike = ["x86_64", "aarch64", "riscv64", "loongarch64"].contains(&target("ARCH").as_str());
    if target("OS") == "linux" && target("POINTER_WIDTH") == "64" && is_alike && !is_interpreted {
        println!("cargo::rustc-cfg=probe_system=\"linux\"");
    }
    println!("cargo::rustc-cfg=probe_backend=\"{}\"", if is_portable { "portable" } else { "patched" });
}
