//! A probe, as the registry knows it.

use std::fmt;
#[cfg(probe_backend = "x86_64")]
use std::ops::Range;

use crate::abi::Definition;

/// A probe's number in this process: dense, and never given to another probe.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProbeId(u32);

impl ProbeId {
    /// No probe's number.
    #[cfg(probe_backend = "x86_64")]
    pub(super) const UNKNOWN: Self = Self(u32::MAX);

    pub(crate) fn new(number: usize) -> Self {
        Self(u32::try_from(number).expect("fewer than 2^32 probes"))
    }

    /// The number, from 0.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Debug for ProbeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// One probe: its definition (and the definition's copies in other objects), and its range of sites.
#[derive(Clone, Debug)]
pub(crate) struct Probe {
    /// The definition that speaks for the probe; `None` once all its objects are unloaded.
    definition: Option<&'static Definition>,
    /// Copies in other objects: rare.
    copies: Vec<&'static Definition>,
    /// Where its sites lie in the registry's list.
    #[cfg(probe_backend = "x86_64")]
    pub(super) sites: Range<u32>,
}

impl Probe {
    #[cfg(not(probe_backend = "off"))]
    pub(super) fn new(definition: &'static Definition) -> Self {
        Self {
            definition: Some(definition),
            copies: Vec::new(),
            #[cfg(probe_backend = "x86_64")]
            sites: 0..0,
        }
    }

    pub(crate) fn definition(&self) -> Option<&'static Definition> {
        self.definition
    }

    pub(crate) fn definitions(&self) -> impl Iterator<Item = &'static Definition> + '_ {
        self.definition.into_iter().chain(self.copies.iter().copied())
    }
}

#[cfg(probe_backend = "x86_64")]
impl Probe {
    pub(super) fn add_copy(&mut self, definition: &'static Definition) {
        match self.definition {
            None => self.definition = Some(definition),
            Some(_) => self.copies.push(definition),
        }
    }

    pub(super) fn forget_definitions(&mut self) {
        self.definition = None;
        self.copies = Vec::new();
        self.sites = 0..0;
    }
}

impl fmt::Debug for Definition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}) at {}:{}", self.path(), self.kind().name(), self.file(), self.line())
    }
}
