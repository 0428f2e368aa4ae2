//! The instructions of each architecture.

pub(crate) mod x86_64;

pub use x86_64::instruction::{Instruction, Rel32, SITE_LEN, SiteAddr, TextWord};
