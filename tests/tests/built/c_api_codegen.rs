//! A latent probe of `probe.h` costs one NOP: the hot paths of functions with probes, by each
//! compiler, against those of the same functions with `PROBE_OFF`.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(probe_portable)))]

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use object::{Object, ObjectSymbol};
use probe_tests::c_library::{makes, shared_library};
use probe_tests::fixture::site_table::SiteTable;

use crate::codegen::hot_path::{HotPath, Mix, listing};

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

    /// The function's hot path is the plain one's, but for `sites` NOPs and, since a site ends a
    /// basic block, at most as many more instructions as said: in all, and in its loops. None of
    /// them reads memory or touches the stack.
    #[track_caller]
    fn costs(&self, function: &str, sites: usize, more: usize, more_in_loops: usize) {
        let (probed, plain) = (Self::hot_path(&self.probed, function), Self::hot_path(&self.plain, function));
        let listings = || {
            let (plain, probed) = (listing(&plain.all()), listing(&probed.all()));
            format!("{}, {function}, plain:\n{plain}probed:\n{probed}", self.compiler)
        };
        assert_eq!((probed.sites.len(), plain.sites.len()), (sites, 0), "{}", listings());
        for site in &probed.sites {
            assert!(
                (1..=5).contains(&probed.padding_before(*site)),
                "padding before {site:#x}, {}",
                listings()
            );
        }
        for (place, probed, plain, more) in [
            ("all", probed.all(), plain.all(), more),
            ("loops", probed.in_loops(), plain.in_loops(), more_in_loops),
        ] {
            let found = probed.len().saturating_sub(plain.len());
            assert!(found <= more, "{found} more instructions in {place} of {}", listings());
            let beyond = Mix::of(&probed).beyond(&Mix::of(&plain));
            let is_memory = |(name, _): &(String, usize)| name.starts_with('(');
            assert!(!beyond.iter().any(is_memory), "{beyond:?} in {place} of {}", listings());
        }
    }
}

/// One for each compiler, built once.
static PAIRS: LazyLock<Vec<Pair>> =
    LazyLock::new(|| makes().into_iter().map(|make| Pair::build(make.c, &["-O2"])).collect());

#[test]
fn a_latent_probe_is_one_nop() {
    for pair in &*PAIRS {
        for function in ["leaf_two_fields", "arguments_in_vectors", "red_zone"] {
            pair.costs(function, 1, 0, 0);
        }
        pair.costs("inlined_three_times", 3, 0, 0);
        // A `lea` becomes a move before the site and an addition after it.
        for (function, sites) in [("leaf", 1), ("leaf_field", 1), ("leaf_text", 1), ("caller", 2)] {
            pair.costs(function, sites, 1, 0);
        }
        // The jump over the cold block, and a move between registers around the loop.
        pair.costs("loop_text", 1, 2, 0);
        // clang takes each volatile asm for one that writes memory.
        if pair.compiler != "clang" {
            pair.costs("loop_global", 1, 2, 0);
        }
        // A value that the plain loop never has in a register by itself.
        pair.costs("loop_float", 1, 3, 2);
        pair.costs("loop_field", 1, 3, 2);
        // The function may compute loop-invariant parts of the value before the loop.
        pair.costs("loop_computed", 1, 6, 1);
    }
}

/// No stack is made for a hit: what a leaf function keeps below the stack pointer stays there.
#[test]
fn a_leaf_function_stays_one() {
    for pair in &*PAIRS {
        let probed = Pair::hot_path(&pair.probed, "red_zone");
        let text = listing(&probed.all());
        assert!(text.contains(",-"), "below the stack pointer: {}: {text}", pair.compiler);
        assert!(!text.contains("sub $") && !text.contains("push"), "{}: {text}", pair.compiler);
    }
}
