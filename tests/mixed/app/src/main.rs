//! A program whose C++ code has probes. Nothing here speaks of them.

use std::ffi::{CString, c_char};

unsafe extern "C" {
    fn words(text: *const c_char) -> usize;
}

fn main() {
    for text in ["", "one", " two  words ", "and three more"] {
        let text = CString::new(text).unwrap();
        // SAFETY: a text that ends with a zero.
        println!("{}", unsafe { words(text.as_ptr()) });
    }
}
