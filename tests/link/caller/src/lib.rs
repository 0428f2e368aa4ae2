//! A plugin that calls its host during load and unload, under the dynamic linker's lock. One of its
//! probes has a text so long that the dynamic linker fills in its address.

use std::env;

use probe_runtime::probe;

/// A module whose name alone takes most of a definition's room for text.
pub mod a_module_whose_name_is_so_long_that_the_path_of_a_probe_in_it_does_not_fit_into_its_definition_and_lies_somewhere_else {
    use probe_runtime::probe;

    #[probe]
    #[inline(never)]
    pub fn long(x: u64) -> u64 {
        std::hint::black_box(x) + 1
    }
}

use a_module_whose_name_is_so_long_that_the_path_of_a_probe_in_it_does_not_fit_into_its_definition_and_lies_somewhere_else::long;

/// Called by the host.
#[probe]
#[unsafe(no_mangle)]
pub extern "C" fn caller_sum(n: u64) -> u64 {
    (0..n).map(long).sum()
}

/// Calls the function whose address the host has left in the environment.
extern "C" fn call_back() {
    let Ok(address) = env::var("PROBE_TEST_CALL_BACK") else { return };
    let address: usize = address.parse().expect("an address");
    // SAFETY: the host's `extern "C" fn()`.
    let call = unsafe { std::mem::transmute::<usize, extern "C" fn()>(address) };
    call();
}

#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = call_back;

#[used]
#[unsafe(link_section = ".fini_array")]
static DESTRUCTOR: extern "C" fn() = call_back;
