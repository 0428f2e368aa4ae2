//! A library that needs no standard library.

#![no_std]
#![forbid(unsafe_code)]
#![deny(warnings)]

use probe_runtime::probe;

/// Decodes the head of a frame.
#[probe]
pub fn decode(bytes: &[u8]) -> Option<u8> {
    probe!("decode::frame", len = bytes.len(), head = ?bytes.first());
    bytes.first().copied()
}
