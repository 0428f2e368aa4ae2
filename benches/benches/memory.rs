//! `memory`: a block that is allocated and freed by an allocator with probes: latent, counted, and
//! with its bytes added to the function that asks, beside the same allocator without probes.

// Safety: relies on layouts that are not empty, and on blocks that are freed by their allocator.
#![expect(unsafe_code, reason = "see above")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;

use probe_benches::{Case, IS_PATCHED, Scale, figure, interleave, pin, timing};
use probe_memory::Probed;
use probe_runtime::{Count, Memory, probe, select};

static PROBED: Probed<System> = Probed::new(System);

/// A block of 64 bytes, which glibc keeps at hand.
fn allocate(allocator: &impl GlobalAlloc, blocks: u64) {
    let layout = Layout::new::<[u64; 8]>();
    for _ in 0..blocks {
        // SAFETY: 64 bytes, which are freed as they were allocated.
        unsafe {
            let block = black_box(allocator.alloc(layout));
            allocator.dealloc(block, layout);
        }
    }
}

#[inline(never)]
fn plain(blocks: u64) {
    allocate(&System, blocks);
}

/// One call of a function that asks for all blocks.
#[probe]
#[inline(never)]
fn probed(blocks: u64) {
    allocate(&PROBED, blocks);
}

fn main() -> Result<(), probe_runtime::Error> {
    if !IS_PATCHED {
        println!("sites are not patched in this build");
        return Ok(());
    }
    let scale = Scale::from_args();
    pin(0);
    let (blocks, rounds) = (scale.of(20_000), scale.of(1_000));
    let measure = |name| {
        let mut cases = [Case::new("plain", blocks, plain), Case::new(name, blocks, probed)];
        let medians = interleave(rounds, &mut cases);
        timing("memory", &medians, name, "plain");
        let more = format!("{:.1}", medians.ns(name) - medians.ns("plain"));
        figure(&format!("memory/{name}-over-plain"), more, "ns", medians.ratio(name, "plain"), "plain");
    };
    measure("latent");
    let all = blocks * (rounds + 1);
    let counts = select("memory::alloc, memory::dealloc")?.attach(Count::new())?;
    measure("counted");
    assert_eq!(counts.total(), 2 * all, "no hit is lost");
    drop(counts);
    let memory = select("memory::alloc, memory::dealloc, **::probed")?.attach(Memory::new())?;
    measure("by-function");
    let allocations = memory.allocations();
    let of = allocations
        .iter()
        .find(|it| it.path().ends_with("::probed"))
        .map(|it| (it.allocations(), it.bytes(), it.frees(), it.freed()));
    assert_eq!(of, Some((all, 64 * all, all, 64 * all)), "no block is lost");
    Ok(())
}
