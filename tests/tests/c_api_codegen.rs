//! A latent probe of `probe.h` costs one NOP: the hot paths of functions with probes, by each compiler, against those of the same
//! functions with `PROBE_OFF`.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(probe_portable)))]

#[path = "codegen/hot_path.rs"]
mod hot_path;

use std::fs;
use std::path::Path;

use hot_path::{HotPath, Mix, listing};
use object::{Object, ObjectSymbol};
use probe_tests::c_library::{makes, shared_library};
use probe_tests::fixture::site_table::SiteTable;

/// The machine code of `costs.c`, with probes and without.
struct Pair {
    compiler: &'static str,
    probed: Vec<u8>,
    plain: Vec<u8>,
}

impl Pair {
    fn build(compiler: &'static str, flags: &[&str]) -> Self {
        let library = |name: &str, flags: &[&str]| {
            let path =
                Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("c_api_codegen_{compiler}_{name}.so"));
            shared_library(compiler, "costs", flags, &["costs.c"], &path);
            fs::read(path).unwrap()
        };
        // A loop with a site in it is not vectorised or unrolled, so the other one must not be.
        let as_written = ["-fno-tree-vectorize", "-fno-unroll-loops"];
        let flags = [flags, &as_written].concat();
        Self {
            compiler,
            probed: library("probed", &flags),
            plain: library("plain", &[&flags[..], &["-DPROBE_OFF"]].concat()),
        }
    }

    fn hot_path(bytes: &[u8], function: &str) -> HotPath {
        let table = SiteTable::parse(bytes);
        let symbol = table.file().symbol_by_name(function).unwrap_or_else(|| panic!("no symbol {function}"));
        HotPath::walk(&table, symbol.address(), symbol.size())
    }

    /// The function's hot path is the plain one's, but for `sites` NOPs, and at most what `beyond` says. In a
    /// loop no more than moves between registers.
    #[track_caller]
    fn costs(&self, function: &str, sites: usize, beyond: &[(&str, usize)]) {
        let (probed, plain) = (Self::hot_path(&self.probed, function), Self::hot_path(&self.plain, function));
        let listings = || {
            let (plain, probed) = (listing(&plain.all()), listing(&probed.all()));
            format!("{}, {function}, plain:\n{plain}probed:\n{probed}", self.compiler)
        };
        assert_eq!((probed.sites.len(), plain.sites.len()), (sites, 0), "{}", listings());
        for site in &probed.sites {
            assert!(probed.padding_before(*site) <= 4, "padding before {site:#x}, {}", listings());
        }
        let more = |probed: Vec<_>, plain: Vec<_>| Mix::of(&probed).beyond(&Mix::of(&plain));
        let is_allowed =
            |name: &str, count| beyond.iter().any(|allowed| allowed.0 == name && count <= allowed.1);
        for (place, found) in
            [("a loop", more(probed.in_loops(), plain.in_loops())), ("all", more(probed.all(), plain.all()))]
        {
            let is_right = found
                .iter()
                .all(|(name, count)| is_allowed(name, *count) && (place == "all" || name == "mov"));
            assert!(is_right, "{found:?} more in {place}, {beyond:?} allowed, in {}", listings());
        }
    }
}

fn pairs() -> Vec<Pair> {
    let compilers = makes().into_iter().map(|make| make.c);
    compilers.map(|compiler| Pair::build(compiler, &["-O2"])).collect()
}

/// The jump over the cold block, an index that starts at zero where the plain loop counts by the pointer, a value that the probe wants in a register, and a result that is not where
/// it is returned.
const AROUND_LOOPS: &[(&str, usize)] = &[("jmp", 1), ("xor", 1), ("mov", 2)];

#[test]
fn a_latent_probe_is_one_nop() {
    for pair in pairs() {
        pair.costs("leaf", 1, &[]);
        pair.costs("leaf_field", 1, &[]);
        pair.costs("leaf_text", 1, &[]);
        pair.costs("leaf_two_fields", 1, &[]);
        pair.costs("arguments_in_vectors", 1, &[]);
        pair.costs("red_zone", 1, &[]);
        pair.costs("inlined_three_times", 3, &[]);
        pair.costs("caller", 2, &[("mov", 1)]);
        pair.costs("loop_field", 1, &[("jmp", 1), ("xor", 1), ("mov", 3)]);
        for function in ["loop_float", "loop_computed", "loop_global", "loop_text"] {
            pair.costs(function, 1, AROUND_LOOPS);
        }
    }
}

/// No stack is made for a hit: what a leaf function keeps below the stack pointer stays there.
#[test]
fn a_leaf_function_stays_one() {
    for pair in pairs() {
        let probed = Pair::hot_path(&pair.probed, "red_zone");
        let text = listing(&probed.all());
        assert!(text.contains(",-"), "below the stack pointer: {}: {text}", pair.compiler);
        assert!(!text.contains("sub $") && !text.contains("push"), "{}: {text}", pair.compiler);
    }
}
