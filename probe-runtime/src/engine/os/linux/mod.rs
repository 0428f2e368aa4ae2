//! Linux: the services that only this crate needs, beside those of `probe-patch`.

#[cfg(all(feature = "profiler", not(miri)))]
pub(crate) mod cpu_samples;
mod function_bounds;
pub(crate) mod imports;
pub(crate) mod objects;

pub(crate) use probe_patch::__runtime::os::{
    blocking::tracer, guarded_read, heavy_barrier, maps, mem, memory, pin::iterate, text, thread,
};
