//! Keeps an instruction's text writable while it is patched.

use std::sync::Arc;

use super::entry::How;
use super::wait::Wait;
use crate::error::{PatchError, TextError};
use crate::os::mem::Alias;
use crate::pages::OpenText;
use crate::pages::check_readable;
use crate::text::TextPolicy;

/// The way in which an instruction's text is kept writable while it is patched.
#[derive(Clone)]
pub enum Writable {
    /// The caller keeps the text writable.
    ByCaller,
    /// A guard keeps the text writable.
    Open {
        /// Only ever dropped.
        _text: Arc<OpenText>,
    },
    /// The text stays read-only: the kernel writes.
    Alias(Arc<Alias>),
}

impl Writable {
    pub(super) fn new(policy: TextPolicy, addr: usize, len: usize) -> Result<Self, PatchError> {
        let refused = |error| PatchError::Text { addr, error };
        let bytes = || Ok(addr..addr.checked_add(len).ok_or(refused(TextError::Unmapped { addr }))?);
        match policy {
            TextPolicy::Open => Ok(Self::ByCaller),
            TextPolicy::Sealed => {
                let open = |text| Self::Open { _text: Arc::new(text) };
                OpenText::new(bytes()?).map(open).map_err(refused)
            }
            TextPolicy::Alias => {
                check_readable(bytes()?).map_err(refused)?;
                let alias = Alias::open().map_err(|error| PatchError::Alias { addr, error })?;
                Ok(Self::Alias(Arc::new(alias)))
            }
        }
    }

    /// Returns how a patch is carried out. `self` must outlive the result, which may name its
    /// alias.
    pub(super) fn how(&self, wait: Wait) -> How {
        match self {
            Self::ByCaller | Self::Open { .. } => How::new(wait),
            Self::Alias(alias) => How::Alias(Arc::as_ptr(alias).addr()),
        }
    }

    /// Returns whether one write can replace a word.
    pub(super) fn has_whole_words(&self) -> bool {
        !matches!(self, Self::Alias(_))
    }
}
