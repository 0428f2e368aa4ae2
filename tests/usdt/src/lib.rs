//! USDT probes of each kind. The test reads their notes, and compares each function's machine code
//! with that of its twin, whose name ends in `_plain` and which has the same probes without `usdt`.

pub mod net;
pub mod sdt;
