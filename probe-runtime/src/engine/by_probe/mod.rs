//! Consumers' tables by probe, to which probes are added while hits read them.
//!
//! Life cycle: made when the consumer is prepared, with numbers for probes that may join a
//! [standing](crate::ProbeSet::standing) attachment later ▸ each join adds a piece ▸ all is dropped
//! with the consumer. Nothing is moved or replaced in place, so hits read without a lock.
//!
//! Cost: a hit loads from a table, by its probe's number, whenever the probe has joined. Numbers
//! without a probe take addresses, and no memory.

mod appended;
mod table;

pub(crate) use appended::Appended;
pub(crate) use table::{ByProbe, Numbers, numbers};
