//! Parameters and results of C functions, from the debug information of their object: names, types,
//! and the places of values at a site.
//!
//! ```text
//! sites (addresses) ─▶ debug_info: unit ▸ function ─▶ types: what a value is, how it is passed
//!                                                 ├─▶ convention: registers and stack, in order
//!                                                 ├─▶ location: where DWARF says it is
//!                                                 └─▶ frames: where the function's frame begins
//! ```
//! A place is certain or [`Place::Absent`]:
//!
//! | site | a parameter is |
//! |---|---|
//! | at the entry | in the register that DWARF names there; else where the calling convention puts it, if the function surely follows that |
//! | at a call of a hook | where DWARF says, if a called function keeps that register; memory that holds for a whole function is believed of gcc, which fills it before the call |
//! | at the exit | in no place; the result is where the calling convention puts it |
//!
//! A function surely follows the convention if its symbol is global, or if its compiler made no
//! copy of it with other parameters: gcc gives such a copy a name of its own (`parse.isra.0`).
//! clang does not, so its local functions are sure where they were not optimised.
//!
//! Structures, complex numbers, vectors and numbers of 128 bits have no value here, but parameters
//! after them are found. clang's callers pass anything for a parameter that the function does not
//! use: it has no location then. Where the way of one is unclear, those after it are found by DWARF
//! alone.
//!
//! Cost: a pass over the units that have a site; all that was read is freed at its end.

mod convention;
mod debug_info;
mod frames;
mod location;
mod types;

use std::sync::Arc;

pub use convention::{INTEGERS, entry_places, stack_words};
pub use debug_info::signatures;
pub(crate) use debug_info::signatures_of;

/// A place in code where values are read.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Site {
    /// Its address in the file.
    pub addr: u64,
    /// Its position in its function.
    pub position: Position,
}

/// The position of a site in its function.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Position {
    /// Before the function's first instruction that does something.
    Entry,
    /// Right before a return.
    Exit,
    /// At a call of a hook.
    Hook,
}

/// The values at one site.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Signature {
    /// The parameters, in the order of the source.
    pub parameters: Vec<Parameter>,
    /// The result; `None` if the function has none.
    pub result: Option<(Kind, Place)>,
    /// Whether callers can pass more than the parameters.
    pub is_variadic: bool,
    /// Whether parameters and result are surely where the calling convention puts them.
    pub follows_convention: bool,
}

/// A parameter at one site.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Parameter {
    /// Its name, if it has one.
    pub name: Option<String>,
    /// The kind of its values.
    pub kind: Kind,
    /// The place of its value.
    pub place: Place,
}

/// The kind of values.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Kind {
    /// An unsigned integer, or an address, of this many bytes.
    Unsigned(u8),
    /// A signed integer of this many bytes.
    Signed(u8),
    /// A truth value.
    Bool,
    /// A floating-point number of 4 or 8 bytes.
    Float(u8),
    /// The address of a string of C.
    Text,
    /// An enumeration.
    Enumeration(Arc<Enumeration>),
    /// A value that is not shown.
    Hidden,
}

/// The names of an enumeration's values.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Enumeration {
    /// Bytes of a value.
    pub bytes: u8,
    /// Whether values are signed.
    pub is_signed: bool,
    /// The values, ascending, each with its first name.
    pub names: Vec<(i64, String)>,
}

/// Where a value is. Registers have DWARF's numbers: general ones from 0, `xmm` from 17.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Place {
    /// In no place that is known.
    Absent,
    /// In this register.
    Register(u8),
    /// In memory, this far from the address in this register.
    Memory {
        /// The register.
        base: u8,
        /// The distance.
        offset: i32,
    },
}
