use probe_runtime::probe;

#[probe(replace)]
unsafe fn read(at: *const u8) -> u8 {
    unsafe { *at }
}

fn main() {
    unsafe { read(&1) };
}
