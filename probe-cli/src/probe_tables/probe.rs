//! A probe and its sites, as a file has them.

use std::sync::Arc;

use probe_core::abi::Convention;
use probe_core::abi::usdt::UsdtName;
use probe_core::{Kind, Type};
use probe_lang::Selectable;

/// Bytes of a site.
pub const SITE_LEN: usize = 5;
/// The bytes of a latent site.
pub(crate) const NOP: [u8; SITE_LEN] = [0x0f, 0x1f, 0x44, 0x00, 0x08];
const JMP: u8 = 0xe9;
const CALL: u8 = 0xe8;

/// The instruction of an active site.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// A JMP to a cold block.
    Jump,
    /// A CALL of the stub.
    Call,
}

/// The state of a site, by its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SiteState {
    /// The NOP.
    Latent,
    /// The instruction that leads to its target, as in a copy of a program's memory.
    Active,
    /// Anything else.
    Foreign,
}

/// One machine-code copy of a probe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Site {
    /// Its address.
    pub addr: u64,
    /// The address that it leads to while it is active.
    pub target: u64,
    /// The address of the stub.
    pub stub: u64,
    /// Its instruction while it is active.
    pub form: Form,
    /// Its bytes.
    pub bytes: [u8; SITE_LEN],
}

impl Site {
    /// Returns its offset in its aligned 8-byte word.
    pub fn offset_in_word(&self) -> u64 {
        self.addr % 8
    }

    /// Returns whether it lies in one aligned word.
    pub fn is_in_one_word(&self) -> bool {
        self.offset_in_word() + SITE_LEN as u64 <= 8
    }

    /// Returns its state, by its bytes.
    pub fn state(&self) -> SiteState {
        let opcode = if self.form == Form::Call { CALL } else { JMP };
        let [first, rel @ ..] = self.bytes;
        let to = self.addr.wrapping_add(SITE_LEN as u64).wrapping_add_signed(i32::from_le_bytes(rel).into());
        if self.bytes == NOP {
            SiteState::Latent
        } else if first == opcode && to == self.target {
            SiteState::Active
        } else {
            SiteState::Foreign
        }
    }
}

/// A field of a probe.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FieldOf {
    /// Its name.
    pub name: String,
    /// Its type; `None` if the file does not tell, or sites disagree.
    pub ty: Option<Type>,
}

/// A probe of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Probe {
    /// The path and the name.
    pub path: String,
    /// The kind.
    pub kind: Kind,
    /// The source file.
    pub file: Arc<str>,
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1; 0 if it is not known.
    pub column: u32,
    /// The fields, in the order of a hit's values.
    pub fields: Vec<FieldOf>,
    /// The group.
    pub group: Option<String>,
    /// The meaning of a hit.
    pub doc: Option<String>,
    /// Whether its sites have USDT notes; of an exit with `ret`, whether those of returns have.
    pub is_usdt: bool,
    /// Why the function has no probe.
    pub skipped: Option<String>,
    /// How active sites reach the runtime.
    pub convention: Convention,
    /// The sites, in the order of the table.
    pub sites: Vec<Site>,
}

impl Probe {
    /// Returns provider and name of its USDT probe, if it has one. A probe without sites has none.
    pub fn usdt_name(&self) -> Option<UsdtName> {
        if self.is_usdt && !self.sites.is_empty() { UsdtName::of(&self.path, self.kind) } else { None }
    }

    /// Returns the state of the first site that is not latent, or latent if all are.
    pub fn state(&self) -> SiteState {
        let states = self.sites.iter().map(Site::state);
        let mut other = states.filter(|state| *state != SiteState::Latent);
        other.next().unwrap_or(SiteState::Latent)
    }
}

impl SiteState {
    /// Returns the word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Latent => "latent",
            Self::Active => "active",
            Self::Foreign => "foreign",
        }
    }
}

impl Selectable for Probe {
    fn path(&self) -> &str {
        &self.path
    }

    fn kind(&self) -> Kind {
        self.kind
    }

    fn file(&self) -> &str {
        &self.file
    }

    fn line(&self) -> u32 {
        self.line
    }

    fn group(&self) -> Option<&str> {
        self.group.as_deref()
    }
}
