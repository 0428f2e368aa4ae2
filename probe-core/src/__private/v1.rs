//! All items that macro expansions name, under one path.

pub use core::future::Future;
pub use core::marker::{PhantomData, Send, Sync};
pub use core::ops::{Drop, Fn};
pub use core::option::Option::{self, None, Some};
pub use core::primitive::{bool, str, usize};
pub use core::{column, compile_error, concat, file, line, module_path};

pub use crate::abi::Kind;
pub use crate::abi::passage::{InMemory, Passage, outcome};
pub use crate::abi::value::absent;
pub use crate::capture::{
    Captured, Capturing, Resulting, Returned, contain, forget, moved, run, shown_as_debug, shown_as_display,
    shown_as_it_is,
};
pub use crate::future::{Noted, Probed, Returning, Sites, Told, Unfrozen, address, call_once, returned};
pub use crate::site::backend::*;
pub use crate::{
    __probe_v1_entered as entered, __probe_v1_exit_site as exit_site, __probe_v1_function as function,
    __probe_v1_future as future, __probe_v1_moving as moving, __probe_v1_pass as pass,
    __probe_v1_point as point, __probe_v1_returning as returning, __probe_v1_site as site,
    __probe_v1_skipped as skipped, __probe_v1_unfrozen as unfrozen, __probe_v1_unwound as unwound,
    __probe_v1_usdt as usdt, __probe_v1_usdt_exit as usdt_exit,
};

#[cfg(feature = "usdt")]
pub use {
    crate::abi::usdt::UsdtName,
    crate::{
        __probe_v1_usdt_name as usdt_name, __probe_v1_usdt_note as usdt_note,
        __probe_v1_usdt_too_many as usdt_too_many,
    },
};

#[cfg(all(feature = "usdt", probe_backend = "patched"))]
pub use crate::site::backend::{Usdt, UsdtExit, usdt_note0, usdt_note1, usdt_note2, usdt_note3, usdt_note4};
#[cfg(all(feature = "usdt", not(probe_backend = "patched")))]
pub use crate::usdt::usdt_argument;

#[cfg(probe_backend = "patched")]
pub use {
    crate::abi::field_index,
    crate::abi::passage::InRegisters,
    crate::site::backend::{Stub, Typed, call, call_failed, call_with_all, call_with_one, call_with_two},
    core::arch::{asm, naked_asm},
};

#[cfg(probe_backend = "portable")]
pub use crate::site::backend::{FAILED, hit, is_active};

#[cfg(not(probe_backend = "off"))]
pub use {
    crate::abi::Definition,
    crate::{
        __probe_v1_capture as capture, __probe_v1_collect as collect, __probe_v1_definition as definition,
        __probe_v1_ended as ended, __probe_v1_entry_site as entry_site,
    },
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
