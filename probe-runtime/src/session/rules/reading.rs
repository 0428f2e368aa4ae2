//! Readings: the numbers of a figure's consumer at one moment, as its driver has read them.

use std::time::Duration;

/// The report of one consumer, since it was attached.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Reading {
    /// The time that the report covers, by the consumer's own clock.
    pub time: Duration,
    /// A row for each probe, or for each function.
    pub rows: Vec<Row>,
}

/// The numbers of one probe or function.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Row {
    /// The path, and whatever else tells it from other rows.
    pub name: String,
    /// Which hits these are.
    pub kind: RowKind,
    /// Hits or calls.
    pub count: u64,
    /// The sum of the numbers, or of the times in nanoseconds.
    pub sum: f64,
    /// The least number, if the consumer has it.
    pub min: Option<f64>,
    /// The greatest number, or the longest time, if the consumer has it.
    pub max: Option<f64>,
    /// The calls by their times.
    pub buckets: Vec<Bucket>,
}

/// The kind of a row.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum RowKind {
    /// Points, entries, or calls.
    #[default]
    Begin,
    /// Exits. They count if no entry of the same name does.
    Exit,
    /// Other hits of a call, such as the polls of a future. They count if nothing else does.
    Other,
}

/// Calls that took about as long as each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bucket {
    /// Its number, which is the same in all readings of an attachment.
    pub number: u64,
    /// Its time in nanoseconds.
    pub time: u64,
    /// The calls.
    pub calls: u64,
}
