//! ELF files that somebody has damaged, or made to do harm: reading them ends in an error or a
//! list, within bounds of memory. A process of its own: it counts all memory.

mod bounds;
mod errors;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod hooked;
mod judge;
mod made;
mod mutated;
mod shaped;
