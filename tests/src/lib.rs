//! Code that several integration tests share. The tests live in `tests/`, one process for each
//! file, and one more for each scenario of global state.

pub mod bpftrace;
#[cfg(all(feature = "unoptimised", target_arch = "x86_64", target_os = "linux"))]
pub mod c;
#[cfg(unix)]
pub mod c_library;
#[cfg(not(any(probe_portable, probe_off)))]
pub mod call_sites;
#[cfg(target_os = "linux")]
pub mod cancel;
#[cfg(target_os = "linux")]
pub mod code;
#[cfg(feature = "unoptimised")]
pub mod crates;
#[cfg(target_arch = "x86_64")]
pub mod destroyer;
pub mod fixture;
#[cfg(unix)]
pub mod folder;
pub mod futures;
#[cfg(target_os = "linux")]
pub mod instrumented;
pub mod joined;
#[cfg(target_os = "linux")]
pub mod lease;
#[cfg(target_os = "linux")]
pub mod library;
#[cfg(target_arch = "x86_64")]
pub mod machine_state;
pub mod nested;
#[cfg(target_os = "linux")]
pub mod pages;
pub mod perfetto;
pub mod points;
#[cfg(unix)]
pub mod processes;
pub mod random;
#[cfg(all(feature = "unoptimised", target_arch = "x86_64", target_os = "linux"))]
pub mod real;
#[cfg(target_os = "linux")]
pub mod sandbox;
#[cfg(unix)]
pub mod scenario;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub mod slots;
#[cfg(feature = "unoptimised")]
pub mod sources;
pub mod stops;
pub mod text;
pub mod turn;
#[cfg(target_os = "linux")]
pub mod uprobe;
#[cfg(target_os = "linux")]
pub mod waiting;
pub mod whole;
