//! All items that macro expansions name, under one path.

pub use probe_core::__private::v1::*;
pub use probe_macros::__point as expand_point;

pub use crate::replaced::{Left, Passed};
pub use crate::{__probe_v1_installer as installer, __probe_v1_replace_site as replace_site};

#[cfg(feature = "std")]
pub use {
    crate::engine::control::{Replacement, install},
    crate::engine::error::Error,
    std::boxed::Box,
    std::result::Result,
};
