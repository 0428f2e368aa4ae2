//! One trace event, as JSON.

use serde::{
    Serialize, Serializer,
    ser::{SerializeMap, SerializeStruct},
};
use serde_json::value::RawValue;

use crate::calls::Fields;
use crate::item::FieldValue;

/// One trace event.
#[derive(Clone, Default)]
pub(super) struct Record<'a> {
    pub(super) phase: &'static str,
    pub(super) name: &'a str,
    pub(super) category: &'a str,
    pub(super) process: u64,
    pub(super) thread: Option<u64>,
    /// Nanoseconds.
    pub(super) time: Option<u64>,
    /// The number that the events of one future share.
    pub(super) future: Option<u64>,
    pub(super) args: Args<'a>,
}

impl Serialize for Record<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut event = serializer.serialize_struct("Record", 8)?;
        event.serialize_field("ph", self.phase)?;
        event.serialize_field("name", self.name)?;
        if !self.category.is_empty() {
            event.serialize_field("cat", self.category)?;
        }
        event.serialize_field("pid", &self.process)?;
        if let Some(thread) = self.thread {
            event.serialize_field("tid", &thread)?;
        }
        if let Some(time) = self.time {
            event.serialize_field("ts", &microseconds(time).map_err(serde::ser::Error::custom)?)?;
        }
        if self.phase == "i" {
            // The scope of an instant: its thread.
            event.serialize_field("s", "t")?;
        }
        if let Some(future) = self.future {
            event.serialize_field("id", &format!("{future:#x}"))?;
        }
        if !self.args.is_empty() {
            event.serialize_field("args", &self.args)?;
        }
        event.end()
    }
}

/// Times in the format's unit with all their digits, which a 64-bit float does not have.
fn microseconds(time: u64) -> serde_json::Result<Box<RawValue>> {
    RawValue::from_string(format!("{}.{:03}", time / 1000, time % 1000))
}

/// The arguments of an event: a hit's fields, and what pairing tells.
#[derive(Clone, Default)]
pub(super) struct Args<'a> {
    pub(super) fields: Option<&'a Fields>,
    /// A counter's series and its value.
    pub(super) counter: Option<(&'a str, &'a FieldValue)>,
    pub(super) notes: Vec<(&'static str, Note<'a>)>,
}

#[derive(Clone, Serialize)]
#[serde(untagged)]
pub(super) enum Note<'a> {
    Text(&'a str),
    Number(u64),
    Flag(bool),
}

impl Args<'_> {
    fn is_empty(&self) -> bool {
        self.notes.is_empty()
            && self.counter.is_none()
            && self.fields.is_none_or(|fields| fields.iter().next().is_none())
    }
}

impl Serialize for Args<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut args = serializer.serialize_map(None)?;
        if let Some(fields) = self.fields {
            for (name, value) in fields.iter() {
                args.serialize_entry(name, &Value(value))?;
            }
        }
        if let Some((name, value)) = self.counter {
            args.serialize_entry(name, &Value(value))?;
        }
        for (name, note) in &self.notes {
            args.serialize_entry(name, note)?;
        }
        args.end()
    }
}

/// A field's value. Numbers that JSON's readers can't hold are text.
struct Value<'a>(&'a FieldValue);

impl Serialize for Value<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            FieldValue::U64(value) => serializer.serialize_u64(*value),
            FieldValue::I64(value) => serializer.serialize_i64(*value),
            FieldValue::F64(value) if value.is_finite() => serializer.serialize_f64(*value),
            FieldValue::Bool(value) => serializer.serialize_bool(*value),
            value => serializer.collect_str(value),
        }
    }
}
