//! The loaded objects (executable, shared objects, plugins), through `dl_iterate_phdr(3)`.

// Safety: relies on the dynamic linker's program headers, which describe the mapped segments while
// the iteration holds its lock.
#![expect(unsafe_code, reason = "see above")]

use std::slice;

/// Returns whether the executable holds this address.
pub fn is_in_main(addr: usize) -> bool {
    let mut found = false;
    iterate(&mut |main| {
        // SAFETY: the dynamic linker's own table of program headers.
        let headers = unsafe { slice::from_raw_parts(main.dlpi_phdr, main.dlpi_phnum.into()) };
        found = headers.iter().filter(|header| header.p_type == libc::PT_LOAD).any(|header| {
            let start = main.dlpi_addr.wrapping_add(header.p_vaddr);
            (addr as u64).wrapping_sub(start) < header.p_memsz
        });
        false
    });
    found
}

/// Calls `each` for every object until it returns `false`.
pub fn iterate(each: &mut dyn FnMut(&libc::dl_phdr_info) -> bool) {
    unsafe extern "C" fn call(
        info: *mut libc::dl_phdr_info,
        _size: usize,
        data: *mut libc::c_void,
    ) -> libc::c_int {
        // SAFETY: `data` is the reference passed below; `info` is valid for the call.
        let (each, info) =
            unsafe { (&mut *data.cast::<&mut dyn FnMut(&libc::dl_phdr_info) -> bool>(), &*info) };
        libc::c_int::from(!each(info))
    }
    let mut each = each;
    // SAFETY: `call` gets back the reference, which outlives the iteration.
    unsafe { libc::dl_iterate_phdr(Some(call), (&raw mut each).cast()) };
}
