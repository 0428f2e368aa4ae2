//! Sessions: what attaches consumers by texts, and reports for them.
//!
//! ```text
//! environment   PROBES, PROBES_OUT ▸ spec ▸ reports at the end
//! spec          net::**=latency ▸ consumers, attached
//! rules         when p99(f) > 5ms then … ▸ what to do
//! agent         other processes ▸ spec, reports
//! ```

#[cfg(feature = "agent")]
pub mod agent;
pub(crate) mod environment;
#[cfg(feature = "agent")]
pub(crate) mod rules;
pub(crate) mod spec;
