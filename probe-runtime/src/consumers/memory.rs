//! Requests of the program's allocator, by the innermost function that is active.

#[cfg(probe_modules)]
mod blocks;

use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use crate::engine::by_probe::Numbers;
use crate::engine::c_values::WantedFields;
use crate::engine::calls::{CallEnd, LazyCalls, Meter, add_single_writer};
use crate::engine::control::{Consumer, ProbeSet, select};
use crate::engine::dispatch::Event;
use crate::engine::error::Error;
use crate::engine::per_thread::Local;
use crate::engine::registry::ProbeId;
use probe_core::Kind;
use probe_core::abi::{Definition, Type, Value};
use probe_report::reports::{Allocations, FunctionAllocations};

/// Counts what the selected functions allocate and free: each request of the program's allocator is
/// that of the innermost of these functions which is active on its thread.
///
/// The program's allocator needs probes: make it `probe_memory::Probed`. Select its probes, too,
/// `memory::*`; `PROBES='net::**=memory'` does that by itself. In other programs, an agent's module
/// `memory` takes their place. There, a block has the bytes that C's allocator tells.
///
/// Entries and exits of the functions are paired as described in [`calls`](crate::calls). The
/// attachment prints as a table, with the function of the most bytes first:
///
/// | column | meaning |
/// |---|---|
/// | `allocations`, `bytes` | blocks that were asked for, and their bytes |
/// | `frees`, `freed` | blocks that were freed, whoever had allocated them, and their bytes |
/// | `net` | the bytes that were allocated, less those that were freed |
///
/// A block that changes its size is one that is freed, and one that is allocated. The row
/// `(outside)` has the requests that no selected function was active for, and those that were made
/// while sites were switched. Functions that are called, and not selected, count for their callers.
/// A C function that `longjmp` has left is active until a hit comes from further up in the stack.
/// A line below says by how much the program's memory has grown since the attachment, which at its
/// end was not freed. Requests that the allocator refuses count as well. So do those of reports,
/// where they are made; those of attaching and of switching are in the number of hits that were not
/// delivered.
///
/// Cost: that of [`Calls`](crate::calls::Calls), without a clock; a request adds to two counters of
/// its thread. No heap, lock or locked instruction on a hit.
///
/// ```
/// use std::alloc::System;
///
/// use probe_memory::Probed;
/// use probe_runtime::{Memory, probe, select};
///
/// #[global_allocator]
/// static ALLOCATOR: Probed<System> = Probed::new(System);
///
/// #[probe]
/// fn read(bytes: usize) -> Vec<u8> {
///     let read = vec![1; bytes];
///     parse(&read);
///     read
/// }
///
/// #[probe]
/// fn parse(read: &[u8]) {
///     drop(std::hint::black_box(read.to_vec()));
/// }
///
/// let memory = select("**::read, **::parse, memory::*")?.attach(Memory::new())?;
/// let kept = read(1000);
/// let allocations = memory.allocations();
/// for it in &allocations {
///     println!("{}: {} bytes in {} blocks", it.path(), it.bytes(), it.allocations());
/// }
/// let of = |name| allocations.iter().find(|it| it.path().ends_with(name)).unwrap();
/// assert_eq!((of("::read").net(), of("::parse").net()), (1000, 0));
/// println!("{memory}");
/// # drop(kept);
/// # Ok::<(), probe_runtime::Error>(())
/// ```
#[derive(Default, Debug)]
pub struct Memory {
    calls: LazyCalls<0, Self>,
    /// The requests that probes stand for.
    requests: OnceLock<Requests>,
}

/// Allocations, their bytes, frees, and their bytes.
type Sums = [AtomicU64; 4];

/// The allocator's probes.
struct Requests {
    /// Each with its request; 0 for others.
    numbers: Numbers,
    /// Whether the allocator of C tells how many bytes a block has.
    tells_sizes: bool,
}

const ALLOCATED: u32 = 1;
const RESIZED: u32 = 2;
const FREED: u32 = 3;
/// Of the module `memory`: exits that return a block, or leave its address in `block`; entries that
/// free `block`; exits that return another block for it.
const BLOCK_RETURNED: u32 = 4;
const BLOCK_LEFT: u32 = 5;
const BLOCK_FREED: u32 = 6;
const BLOCK_RESIZED: u32 = 7;
/// Its other hits.
const IGNORED: u32 = 8;

/// The selectors of an allocator's probes: of Rust's, or else of C's.
const OF_ALLOCATOR: [&str; 2] = ["memory::* kind=point", "memory::* kind=entry|exit"];

impl Requests {
    /// Returns what a probe's hit says; 0 if it is not an allocator's.
    fn of(definition: &Definition) -> u32 {
        let is = |path: &str, fields: &[&str]| {
            definition.path() == path && definition.fields().eq(fields.iter().copied())
        };
        match definition.kind() {
            Kind::Point if is("memory::alloc", &["size"]) => ALLOCATED,
            Kind::Point if is("memory::realloc", &["old", "size"]) => RESIZED,
            Kind::Point if is("memory::dealloc", &["size"]) => FREED,
            kind if definition.note("module") == Some("memory") => Self::of_c(definition.path(), kind),
            _ => 0,
        }
    }

    /// Returns what a hit in a function of C's allocators says.
    fn of_c(path: &str, kind: Kind) -> u32 {
        let name = path.rsplit("::").next().unwrap_or_default();
        match (name, kind) {
            ("free" | "resize" | "resize_array", Kind::Entry) => BLOCK_FREED,
            ("resize" | "resize_array", Kind::Exit) => BLOCK_RESIZED,
            ("posix_memalign", Kind::Exit) => BLOCK_LEFT,
            ("malloc" | "calloc" | "aligned_alloc" | "memalign" | "valloc" | "strdup", Kind::Exit) => {
                BLOCK_RETURNED
            }
            _ => IGNORED,
        }
    }

    /// Returns the probes of functions.
    fn without(&self, probes: &ProbeSet) -> ProbeSet {
        probes.only(&|id| self.numbers.get(*id) == 0)
    }

    /// Learns of these probes. Returns whether any is an allocator's.
    ///
    /// # Errors
    /// Nothing tells the bytes of blocks of C's allocator.
    fn learn(&self, probes: &ProbeSet) -> Result<bool, Error> {
        let of_allocator: Vec<_> = probes.with_definitions(|all| {
            all.map(|(id, definition)| (id, Self::of(definition)))
                .filter(|(_, request)| *request != 0)
                .collect()
        });
        if !self.tells_sizes && of_allocator.iter().any(|(_, request)| *request >= BLOCK_RETURNED) {
            let problem = "the program's allocator does not tell how many bytes a block has: it has `malloc`, and no \
                           `malloc_usable_size`; `memory::malloc=sum(size)` sums the requests";
            return Err(Error::Consumer(problem.into()));
        }
        for (id, request) in &of_allocator {
            if self.numbers.has(*id) {
                self.numbers.set(*id, *request);
            }
        }
        Ok(!of_allocator.is_empty())
    }
}

impl std::fmt::Debug for Requests {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Requests").finish_non_exhaustive()
    }
}

impl Memory {
    /// Creates a consumer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the numbers of the probes that it needs besides those of functions; none if the
    /// program's allocator has no probes.
    pub(crate) fn of_allocator() -> Vec<ProbeId> {
        let sets = OF_ALLOCATOR.into_iter().filter_map(|selector| select(selector).ok());
        sets.map(|set| set.ids().to_vec()).find(|ids| !ids.is_empty()).unwrap_or_default()
    }

    /// Returns what each function has allocated and freed so far, on all threads, including ended
    /// ones.
    pub fn allocations(&self) -> Allocations {
        let Some(calls) = self.calls.get() else { return Allocations::default() };
        let add = |mut all: [u64; 4], sums: &Sums| {
            all.iter_mut().zip(sums).for_each(|(all, sum)| *all += sum.load(Relaxed));
            all
        };
        let functions = calls.functions().iter().enumerate();
        let functions = functions.map(|(number, function)| {
            FunctionAllocations::new(Some(function.clone()), calls.parts(number).fold([0; 4], add))
        });
        let outside = calls.heads().fold([0; 4], |all, local| add(all, local.head()));
        let mut functions: Vec<_> = functions.chain([FunctionAllocations::new(None, outside)]).collect();
        crate::engine::order::sort_by(&mut functions, |a, b| {
            b.bytes().cmp(&a.bytes()).then_with(|| a.path().cmp(b.path()))
        });
        Allocations::new(functions, calls.left_out(), calls.lost(), calls.period())
    }

    /// Counts a request for the innermost function.
    #[inline(always)]
    fn count(&self, event: &Event<'_>, request: u32) {
        let Some((outside, function)) = self.calls.get().and_then(|calls| calls.innermost(event)) else {
            return;
        };
        let sums = function.unwrap_or(outside);
        #[cfg(probe_modules)]
        if request >= BLOCK_RETURNED {
            return blocks::count(sums, event, request);
        }
        let [blocks, bytes, freed, freed_bytes] = sums;
        let size = |at: usize| event.values().get(at).map_or(0, bytes_of);
        if request != FREED {
            add_single_writer(blocks, 1);
            add_single_writer(bytes, size(usize::from(request == RESIZED)));
        }
        if request != ALLOCATED {
            add_single_writer(freed, 1);
            add_single_writer(freed_bytes, size(0));
        }
    }
}

/// Returns the size in a field, which is one word.
#[inline(always)]
fn bytes_of(field: &Value<'_>) -> u64 {
    if field.ty_number() == Type::U64 as u64 { field.words()[0] } else { 0 }
}

impl Meter<0> for Memory {
    /// Of requests outside of all functions.
    type Head = Sums;
    type Part = Sums;

    #[inline(always)]
    fn read(&self, _: Local<'_, Sums, ()>) -> [u64; 0] {
        []
    }

    #[inline(always)]
    fn read_inline(&self) -> Option<[u64; 0]> {
        Some([])
    }

    #[inline(always)]
    fn end(&self, _: &CallEnd<'_, 0, Sums, Sums>) {}
}

impl Consumer for Memory {
    fn pairs_calls(&self) -> bool {
        true
    }

    fn wanted_fields(&self) -> WantedFields {
        WantedFields::of_modules(&["ret", "block", "size"])
    }

    fn prepare(&self, probes: &ProbeSet) -> Result<(), Error> {
        let requests = self.requests.get_or_init(|| Requests {
            numbers: Numbers::new(probes.numbers()),
            #[cfg(probe_modules)]
            tells_sizes: crate::engine::os::allocator::tells_sizes(),
            #[cfg(not(probe_modules))]
            tells_sizes: false,
        });
        if !requests.learn(probes)? {
            let problem = "no probe of an allocator is selected: a program has `memory::*` if its \
                           `#[global_allocator]` is `probe_memory::Probed`, or if an agent brings modules";
            return Err(Error::Consumer(problem.into()));
        }
        self.calls.prepare(&requests.without(probes))
    }

    fn join(&self, probes: &ProbeSet) -> Result<(), Error> {
        let Some(requests) = self.requests.get() else { return Ok(()) };
        requests.learn(probes)?;
        self.calls.join(&requests.without(probes))
    }

    #[inline]
    fn hit(&self, event: &Event<'_>) {
        match self.requests.get().map_or(0, |requests| requests.numbers.get(event.probe())) {
            0 => self.calls.hit(event, self),
            IGNORED => (),
            request => self.count(event, request),
        }
    }
}

impl_display!(Memory: allocations);
