//! A sled of a loaded object, as the registry and the control see it.

// Safety: relies on the memory that holds the definition and outlives the sled, and on loaded text.
#![expect(unsafe_code, reason = "see above")]

use super::forms::{Forms, Head};
use crate::engine::os::objects::{Frozen, KeptLoaded};
use crate::engine::registry::ProbeId;
use crate::engine::registry::provider::{CallSite, ListedProbe};
use crate::engine::sites::{Instruction, SITE_LEN, Site, SiteAddr, read_word};
use probe_core::abi::Definition;

/// One sled.
#[derive(Debug)]
pub(super) struct SledSite {
    /// Its first byte.
    pub(super) at: usize,
    definition: *const Definition,
    way: Way,
    probe: ListedProbe,
}

/// How a sled is switched.
#[derive(Clone, Copy, Debug)]
pub(super) enum Way {
    /// As a site of a table.
    Site(Instruction),
    Forms(Forms),
    /// Never: its definition says why.
    None,
}

// SAFETY: the definition is in memory that lives as long as the sled, and only `get` of the
// registry reads more of it than two atomics.
unsafe impl Sync for SledSite {}
// SAFETY: the same.
unsafe impl Send for SledSite {}

impl SledSite {
    pub(super) fn new(at: usize, definition: *const Definition, way: Way) -> Self {
        Self { at, definition, way, probe: ListedProbe::new() }
    }

    /// Returns its bytes, if the provider itself switches it.
    pub(super) fn forms(&self) -> Option<&Forms> {
        if let Way::Forms(forms) = &self.way { Some(forms) } else { None }
    }

    /// Returns the state of its head; the bytes there if they are foreign.
    pub(super) fn head(&self, forms: &Forms, loaded: KeptLoaded<'_>) -> Result<Head, [u8; SITE_LEN]> {
        let mut head = [0; 8];
        let head = &mut head[..forms.told_by()];
        read(self.at, head, loaded);
        forms.head(head).ok_or_else(|| self.found(loaded))
    }

    /// Returns its first five bytes.
    pub(super) fn found(&self, loaded: KeptLoaded<'_>) -> [u8; SITE_LEN] {
        let mut found = [0; SITE_LEN];
        read(self.at, &mut found, loaded);
        found
    }
}

/// Reads text of a loaded object, word by word.
pub(super) fn read(at: usize, bytes: &mut [u8], _loaded: KeptLoaded<'_>) {
    let mut word = (usize::MAX, [0; 8]);
    for (at, byte) in (at..).zip(bytes) {
        if word.0 != at & !7 {
            // SAFETY: the word of a byte of a sled, in text that stays mapped: `_loaded` says so.
            word = (at & !7, unsafe { read_word(at & !7) }.to_le_bytes());
        }
        *byte = word.1[at % 8];
    }
}

impl CallSite for SledSite {
    fn definition<'a>(&'static self, _frozen: &'a Frozen) -> Option<&'a Definition> {
        // SAFETY: in memory that lives as long as the sled, and the registry lists it.
        Some(unsafe { &*self.definition })
    }

    fn site(&'static self) -> Option<Site> {
        let active = match &self.way {
            Way::Site(active) => *active,
            // Only its address is used.
            Way::Forms(_) => Instruction::NOP5,
            Way::None => return None,
        };
        Some(Site::new(SiteAddr(self.at), active).without_block())
    }

    #[cfg(probe_values)]
    fn after(&'static self) -> Option<usize> {
        match &self.way {
            Way::Site(_) => Some(self.at + SITE_LEN),
            Way::Forms(forms) => Some(forms.after()),
            Way::None => None,
        }
    }

    fn is_settled(&self) -> bool {
        matches!(self.way, Way::Site(_))
    }

    fn places(&self) -> usize {
        usize::from(!matches!(self.way, Way::None))
    }

    fn was_reached(&self) -> bool {
        false
    }

    fn probe(&self) -> Option<ProbeId> {
        self.probe.get()
    }

    fn set_probe(&self, id: ProbeId) {
        self.probe.set(id);
    }

    fn counter(&self) -> Option<usize> {
        None
    }
}
