//! Safe bindings to the C library.

// Safety: relies on the contracts in `c/squeeze.h`: the size of the output, and that input is read
// within its length.
#![expect(unsafe_code, reason = "see above")]

use std::ffi::c_uchar;

use probe_runtime::probe;

unsafe extern "C" {
    fn squeeze_bound(len: usize) -> usize;
    fn squeeze_compress(text: *const c_uchar, len: usize, out: *mut c_uchar) -> usize;
    fn squeeze_expand(text: *const c_uchar, len: usize, out: *mut c_uchar, capacity: usize) -> usize;
}

/// Compresses the text.
#[probe]
pub(crate) fn compress(text: &[u8]) -> Vec<u8> {
    // SAFETY: it only computes a number.
    let mut out = vec![0; unsafe { squeeze_bound(text.len()) }];
    // SAFETY: the output has `squeeze_bound` bytes, as the contract requires.
    let len = unsafe { squeeze_compress(text.as_ptr(), text.len(), out.as_mut_ptr()) };
    out.truncate(len);
    out
}

/// Expands the text to at most `capacity` bytes; returns `None` if the text is damaged.
#[probe]
pub(crate) fn expand(text: &[u8], capacity: usize) -> Option<Vec<u8>> {
    let mut out = vec![0; capacity];
    // SAFETY: it reads within the text, and writes within the capacity.
    let len = unsafe { squeeze_expand(text.as_ptr(), text.len(), out.as_mut_ptr(), capacity) };
    out.truncate(len);
    (len <= capacity).then_some(out)
}
