//! Starting a program with `libprobe_agent.so`, the library that brings the runtime to programs
//! which only have latent probes.
//!
//! ```text
//! command ──▶ starting: the file that the kernel starts ──▶ obstacles, a runtime of its own
//! --agent, a variable, folders ──▶ library ──▶ environment: LD_PRELOAD, PROBE_AGENT, PROBE_PRELOAD
//! ```

mod environment;
mod library;
mod obstacle;
mod starting;

pub use environment::{Preload, ask_for_agent};
pub use library::library;
pub use obstacle::Obstacle;
pub use starting::Starting;
