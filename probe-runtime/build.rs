//! Decides the backend once, so that the sources look at one cfg only.
//!
//! `probe_backend` is `patched` (sites are patched in place), `portable` (an atomic flag and a
//! branch) or `off` (no code at all).
//! `probe_discovers` says whether the feature `finstrument` has something to patch.
//! `probe_agent` says whether the feature `agent` has a system that it works on, and probes.
//! `probe_definitions` says how definitions are found: `linked` (the linker collects them) or
//! `seen` (each on its first hit; under Miri, which has no linker).
//! `probe_system` is `linux` where that system is asked for memory and for its threads, also if no
//! code is patched.
//! `probe_narrow` says whether the crate's own code changes no vector register beyond the lower
//! parts of `xmm0` to `xmm15` and calls no function that would: it is optimised, for a processor
//! without AVX, and nobody instruments it.
//! All follow the target, never the host.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(probe_backend, values(\"patched\", \"portable\", \"off\"))");
    println!("cargo::rustc-check-cfg=cfg(probe_off)");
    println!("cargo::rustc-check-cfg=cfg(probe_portable)");
    println!("cargo::rustc-check-cfg=cfg(probe_seen)");
    println!("cargo::rustc-check-cfg=cfg(probe_in_place)");
    println!("cargo::rustc-check-cfg=cfg(probe_definitions, values(\"linked\", \"seen\"))");
    println!("cargo::rustc-check-cfg=cfg(probe_discovers)");
    println!("cargo::rustc-check-cfg=cfg(probe_system, values(\"linux\"))");
    if is_linux() {
        println!("cargo::rustc-cfg=probe_system=\"linux\"");
    }
    println!("cargo::rustc-check-cfg=cfg(probe_narrow)");
    if is_narrow() {
        println!("cargo::rustc-cfg=probe_narrow");
    }
    println!("cargo::rustc-check-cfg=cfg(probe_agent)");
    if is_discovering() {
        println!("cargo::rustc-cfg=probe_discovers");
    }
    if has_agent() {
        println!("cargo::rustc-cfg=probe_agent");
    }
    println!("cargo::rustc-cfg=probe_backend=\"{}\"", backend());
    println!("cargo::rustc-cfg=probe_definitions=\"{}\"", if is_seen() { "seen" } else { "linked" });
}

fn is_set(name: &str) -> bool {
    env::var_os(format!("CARGO_CFG_{name}")).is_some()
}

/// Whether the kill switch is on: for the whole build, or by a crate that sets the feature.
fn is_off() -> bool {
    is_set("PROBE_OFF") || env::var_os("CARGO_FEATURE_OFF").is_some()
}

/// Whether call sites are discovered: where they can be patched.
fn is_discovering() -> bool {
    env::var_os("CARGO_FEATURE_FINSTRUMENT").is_some() && backend() == "patched"
}

/// Whether other processes may ask: where a socket tells who connects.
fn has_agent() -> bool {
    let is_asked_for = env::var_os("CARGO_FEATURE_AGENT").is_some();
    is_asked_for && target("OS") == "linux" && !is_set("MIRI") && backend() != "off"
}

/// Whether the compiler uses no wide registers, and no functions for small copies.
fn is_narrow() -> bool {
    let has_avx = target("FEATURE").split(',').any(|feature| feature == "avx");
    env::var("OPT_LEVEL").is_ok_and(|level| matches!(&*level, "2" | "3" | "s"))
        && !has_avx
        && !is_set("SANITIZE")
}

/// Whether a definition is found on its first hit, as under Miri. `--cfg probe_seen` asks for that
/// without Miri. `--cfg probe_in_place` asks for patched sites under Miri, for the unit tests of
/// the patch engine, which execute no site.
fn is_seen() -> bool {
    is_set("PROBE_SEEN") || is_set("MIRI") && !is_set("PROBE_IN_PLACE")
}

fn target(name: &str) -> String {
    env::var(format!("CARGO_CFG_TARGET_{name}")).unwrap_or_default()
}

/// Whether `probe-patch` has the services of Linux for this target; its build script decides alike.
fn is_linux() -> bool {
    let is_alike = ["x86_64", "aarch64", "riscv64", "loongarch64"].contains(&target("ARCH").as_str());
    target("OS") == "linux" && target("POINTER_WIDTH") == "64" && is_alike && !is_seen() && !is_off()
}

fn backend() -> &'static str {
    // The systems on which `linkme` can collect the definitions.
    let collects =
        ["linux", "android", "fuchsia", "macos", "ios", "tvos", "windows", "freebsd", "openbsd", "illumos"];
    if is_off() || (!is_seen() && !collects.contains(&target("OS").as_str())) {
        return "off";
    }
    let patches = target("ARCH") == "x86_64" && target("POINTER_WIDTH") == "64" && target("OS") == "linux";
    if patches && !is_set("PROBE_PORTABLE") && !is_seen() { "patched" } else { "portable" }
}
