//! Chooses the backend, as `probe-core` does, and what of the features works with it.
//!
//! `probe_discovers` says whether the feature `finstrument` has something to patch.
//! `probe_values` says whether the feature `c-values` has sites of C whose registers it knows.
//! `probe_modules` says whether the feature `modules` has wrappers for this target.
//! `probe_agent` says whether the feature `agent` has a system that it works on, and probes.
//! `probe_whole` says whether all consumers are in this build, so that something calls each
//! function of the engine.
//! `probe_narrow` says whether the crate's own code changes no vector register beyond the lower
//! parts of `xmm0` to `xmm15` and calls no function that would: it is optimised, for a processor
//! without AVX, and nobody instruments it.

use std::env;

use probe_target::{Target, is_set, variable};

fn main() {
    let target = Target::of_build_script();
    let backend = target.backend();
    target.emit(backend);
    // Call sites are discovered where they can be patched.
    emit("probe_discovers", has_feature("FINSTRUMENT") && backend == "patched");
    emit("probe_values", has_feature("C_VALUES") && backend == "patched");
    emit("probe_modules", has_feature("MODULES") && backend == "patched");
    // Other processes may ask where a socket tells who connects.
    let has_sockets = variable("TARGET_OS") == "linux" && !is_set("MIRI");
    emit("probe_agent", has_feature("AGENT") && has_sockets && backend != "off");
    emit("probe_narrow", is_narrow());
    let consumers = [
        "LATENCY", "PROFILER", "CALL_TREE", "PERF", "TRACE", "TRACING", "AGENT", "FINSTRUMENT", "C_VALUES",
        "MODULES",
    ];
    emit("probe_whole", backend == "patched" && consumers.into_iter().all(has_feature));
}

fn emit(name: &str, is_set: bool) {
    println!("cargo::rustc-check-cfg=cfg({name})");
    if is_set {
        println!("cargo::rustc-cfg={name}");
    }
}

fn has_feature(name: &str) -> bool {
    env::var_os(format!("CARGO_FEATURE_{name}")).is_some()
}

/// Whether the compiler uses no wide registers, and no functions for small copies.
fn is_narrow() -> bool {
    let has_avx = variable("TARGET_FEATURE").split(',').any(|feature| feature == "avx");
    env::var("OPT_LEVEL").is_ok_and(|level| matches!(&*level, "2" | "3" | "s"))
        && !has_avx
        && !is_set("SANITIZE")
}
