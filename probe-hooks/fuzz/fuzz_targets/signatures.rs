//! Reads the signatures of functions in a file of any bytes.
#![no_main]

use probe_hooks::signatures::{Position, Site, signatures};

libfuzzer_sys::fuzz_target!(|file: &[u8]| {
    let positions = [Position::Entry, Position::Exit, Position::Hook];
    let site = |addr: u64| Site { addr: 0x1000 + 16 * addr, position: positions[addr as usize % 3] };
    let sites: Vec<_> = (0..256).map(site).collect();
    assert_eq!(signatures(file, &sites).len(), sites.len());
});
