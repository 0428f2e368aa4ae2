//! A discovery's name, and the memory of a long one.

// Safety: relies on a discovery being named once, by the holder of the control lock.
#![expect(unsafe_code, reason = "see above")]

use std::ptr;
use std::sync::atomic::Ordering;

use super::Discovery;
use crate::finstrument::discovery::chunk::ChunkPlace;
use crate::finstrument::discovery::tokens::ControlLocked;
use probe_core::abi::Definition;

impl Discovery {
    /// Names the discovery. From now on its definition may be read.
    pub(in crate::finstrument) fn name(
        &'static self,
        _locked: &ControlLocked,
        object: u64,
        path: &str,
        file: &str,
        line: u32,
    ) {
        let Some(place) = ChunkPlace::of(self) else { return };
        // Most names are copied into the definition.
        let text: &'static mut str = Box::leak([path, file].concat().into_boxed_str());
        self.text_len.store(text.len(), Ordering::Relaxed);
        self.text.store(text.as_mut_ptr(), Ordering::Relaxed);
        let named = Definition::discovered(self.hit().kind, text, path, file, line);
        // SAFETY: before it is named, no thread reads more of it than entry and hook. The control
        // lock's holder names it.
        unsafe { named.describe(place.definition_at()) };
        if named.text_elsewhere().is_none() {
            self.forget_text();
        }
        self.object.store(object.max(1), Ordering::Release);
    }

    pub(super) fn forget_text(&self) {
        let (start, len) =
            (self.text.swap(ptr::null_mut(), Ordering::Relaxed), self.text_len.load(Ordering::Relaxed));
        if !start.is_null() {
            // SAFETY: from `name`, taken out once; no definition that is read refers to it.
            drop(unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(start, len)) });
        }
    }
}
