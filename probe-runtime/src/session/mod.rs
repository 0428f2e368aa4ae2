//! Sessions: what attaches consumers by texts, and reports for them.
//!
//! ```text
//! environment   PROBES, PROBES_OUT ▸ spec ▸ reports at the end
//! spec          net::**=latency ▸ consumers, attached
//! agent         other processes ▸ spec, reports
//! ```

#[cfg(feature = "agent")]
pub mod agent;
pub(crate) mod environment;
pub(crate) mod spec;
