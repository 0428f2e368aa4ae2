//! Everything that expansions name, under one path.

pub use core::arch::{asm, naked_asm};
pub use core::ops::Drop;
pub use core::{column, concat, file, line, module_path};

pub use linkme::{self, distributed_slice};
pub use probe_macros::__point as expand_point;

pub use crate::abi::{Definition, Kind, debug, display, value};
pub use crate::arch::backend::site::*;
pub use crate::{
    __probe_v1_definition as definition, __probe_v1_function as function, __probe_v1_how as how,
    __probe_v1_point as point,
};

/// All definitions of this binary.
#[linkme::distributed_slice]
pub static PROBE_DEFINITIONS_V1: [Definition];
