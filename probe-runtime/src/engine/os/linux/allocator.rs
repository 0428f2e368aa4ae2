//! The program's allocator of C.

// Safety: relies on dlsym(3) and dladdr(3), with names that end with a NUL.
#![expect(unsafe_code, reason = "see above")]

use std::ffi::CStr;
use std::mem::MaybeUninit;

/// Returns whether the object that the program's `malloc` is in also tells a block's size. Another
/// allocator's `malloc_usable_size` would read memory that it knows nothing of.
///
/// It takes the dynamic linker's outer lock.
pub(crate) fn tells_sizes() -> bool {
    let [allocates, tells] = [c"malloc", c"malloc_usable_size"].map(object_of);
    allocates.is_some() && allocates == tells
}

/// Returns the address of the object that has the program's function of this name.
fn object_of(function: &CStr) -> Option<usize> {
    let mut found = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: a name; the address of a function, or of none, which is in no object.
    unsafe {
        let address = libc::dlsym(libc::RTLD_DEFAULT, function.as_ptr());
        if libc::dladdr(address, found.as_mut_ptr()) == 0 {
            None
        } else {
            Some(found.assume_init().dli_fbase.addr())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "dlsym(3)")]
    fn the_c_librarys_allocator_tells_sizes() {
        assert!(tells_sizes());
        assert_eq!(object_of(c"malloc"), object_of(c"getenv"));
        assert_eq!(object_of(c"no_object_has_such_a_function"), None);
    }
}
