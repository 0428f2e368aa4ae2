//! Everything that expansions name, under one path.

pub use core::future::Future;
pub use core::ops::Drop;
pub use core::option::Option;
pub use core::{column, concat, file, line, module_path};

pub use probe_macros::__point as expand_point;

pub use crate::abi::{InMemory, InRegisters, Kind, debug, display, value};
pub use crate::arch::backend::site::*;
pub use crate::future::{Noted, Probed, Returning, Sites, Told, address, call_once, returned};
pub use crate::{
    __probe_v1_function as function, __probe_v1_future as future, __probe_v1_pass as pass,
    __probe_v1_point as point, __probe_v1_skipped as skipped,
};

#[cfg(probe_backend = "x86_64")]
pub use {
    crate::abi::{Passage, field_index},
    core::arch::{asm, naked_asm},
};

#[cfg(probe_backend = "portable")]
pub use crate::arch::backend::{hit, is_active};

#[cfg(not(probe_backend = "off"))]
pub use {
    crate::abi::Definition,
    crate::{__probe_v1_collect as collect, __probe_v1_definition as definition},
};

#[cfg(all(not(probe_backend = "off"), probe_definitions = "linked"))]
pub use linked::*;

#[cfg(all(not(probe_backend = "off"), probe_definitions = "linked"))]
mod linked {
    pub use linkme::{self, distributed_slice};

    use crate::abi::Definition;

    /// All definitions of this binary.
    #[distributed_slice]
    pub static PROBE_DEFINITIONS_V1: [Definition];
}
