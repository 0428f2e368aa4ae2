#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg(unix)]

mod assign;
mod code;
mod extents;
mod file;
mod flow;
mod kinds;
mod names;
mod references;
mod separate_file;
pub mod signatures;
mod sleds;
mod symbols;
pub mod unwinding;

pub use assign::{ResolvedUse, assign};
pub use code::{Form, HookUse, Jump, RegisterValue, Target, hook_uses, jumps};
pub use extents::Extents;
pub use flow::Fragment;
pub use kinds::tell_apart;
pub use names::{Description, ObjectFile, Symbol};
pub use object::ReadCache;
pub use references::{HookTargets, MAX_LINKAGE_ENTRY_LEN, linkage_word};
pub use sleds::{Form as SledForm, Obstacle, Place, Sled, Sleds, Unusable, read as read_sleds};
pub use symbols::demangled_path;
