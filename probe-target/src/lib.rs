//! Decides once what the sites of a target are made of, so that the sources of `probe-core`,
//! `probe-patch` and `probe-runtime` look at one `cfg` each. For build scripts: everything follows
//! the target, never the host, and comes from the variables that cargo sets for them.
//!
//! | `cfg` | values |
//! |---|---|
//! | `probe_backend` | `patched` (sites are patched in place), `portable` (a flag and a branch), `off` (no code) |
//! | `probe_definitions` | `linked` (the linker collects the definitions), `seen` (each is found on its first hit; under Miri, which has no linker) |
//! | `probe_system` | `linux` where that system is asked for memory and threads, also if no code is patched |
//!
//! `--cfg probe_off`, `--cfg probe_portable` and `--cfg probe_seen` in `RUSTFLAGS` ask for a
//! backend. `--cfg probe_in_place` asks for patched sites under Miri, for the unit tests of the
//! patch engine, which execute no site.
//!
//! ```no_run
//! // build.rs
//! let target = probe_target::Target::of_build_script();
//! target.emit(target.backend());
//! ```

#![forbid(unsafe_code)]

use std::env;

/// The target of the build script that asks, and what `RUSTFLAGS` say of it.
///
/// ```no_run
/// let target = probe_target::Target::of_build_script();
/// assert!(["patched", "portable", "off"].contains(&target.backend()));
/// ```
#[derive(Debug)]
pub struct Target {
    architecture: String,
    system: String,
    pointer_width: String,
    is_off: bool,
    is_portable: bool,
    is_seen: bool,
}

impl Target {
    /// Reads the variables of the build script that runs.
    pub fn of_build_script() -> Self {
        Self {
            architecture: variable("TARGET_ARCH"),
            system: variable("TARGET_OS"),
            pointer_width: variable("TARGET_POINTER_WIDTH"),
            is_off: is_set("PROBE_OFF") || env::var_os("CARGO_FEATURE_OFF").is_some(),
            is_portable: is_set("PROBE_PORTABLE"),
            is_seen: is_set("PROBE_SEEN") || is_set("MIRI") && !is_set("PROBE_IN_PLACE"),
        }
    }

    /// Returns what sites are made of: `patched`, `portable` or `off`.
    pub fn backend(&self) -> &'static str {
        // The systems on which `linkme` can collect the definitions.
        const COLLECTING: [&str; 10] = [
            "linux", "android", "fuchsia", "macos", "ios", "tvos", "windows", "freebsd", "openbsd", "illumos",
        ];
        let has_definitions = self.is_seen || COLLECTING.contains(&&*self.system);
        if self.is_off || !has_definitions { "off" } else { self.patching() }
    }

    /// Returns whether this target's code is patched: `patched` or `portable`. A program without
    /// probes still has code to patch.
    pub fn patching(&self) -> &'static str {
        let can_patch = self.architecture == "x86_64" && self.is_linux_of_64_bits();
        if can_patch && !self.is_portable && !self.is_seen { "patched" } else { "portable" }
    }

    /// Tells the compiler of the crate whose build script this is: the backend, how definitions are
    /// found, and the system.
    pub fn emit(&self, backend: &str) {
        println!("cargo::rerun-if-changed=build.rs");
        println!("cargo::rustc-check-cfg=cfg(probe_backend, values(\"patched\", \"portable\", \"off\"))");
        println!("cargo::rustc-check-cfg=cfg(probe_definitions, values(\"linked\", \"seen\"))");
        println!("cargo::rustc-check-cfg=cfg(probe_system, values(\"linux\"))");
        for asked in ["probe_off", "probe_portable", "probe_seen", "probe_in_place"] {
            println!("cargo::rustc-check-cfg=cfg({asked})");
        }
        println!("cargo::rustc-cfg=probe_backend=\"{backend}\"");
        println!("cargo::rustc-cfg=probe_definitions=\"{}\"", if self.is_seen { "seen" } else { "linked" });
        // Architectures whose system calls have the numbers of arguments and the results of x86-64.
        let is_alike = ["x86_64", "aarch64", "riscv64", "loongarch64"].contains(&&*self.architecture);
        if is_alike && self.is_linux_of_64_bits() && !self.is_seen && backend != "off" {
            println!("cargo::rustc-cfg=probe_system=\"linux\"");
        }
    }

    fn is_linux_of_64_bits(&self) -> bool {
        self.system == "linux" && self.pointer_width == "64"
    }
}

/// Returns whether a `cfg` without a value is set, such as `MIRI`.
///
/// ```
/// assert!(!probe_target::is_set("MIRI"));
/// ```
pub fn is_set(name: &str) -> bool {
    env::var_os(format!("CARGO_CFG_{name}")).is_some()
}

/// Returns the value of a `cfg`, such as `TARGET_OS`; the empty text if it has none.
///
/// ```
/// assert_eq!(probe_target::variable("TARGET_OS"), "");
/// ```
pub fn variable(name: &str) -> String {
    env::var(format!("CARGO_CFG_{name}")).unwrap_or_default()
}
