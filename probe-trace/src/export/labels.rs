//! The names, notes and counters that several formats show alike.

use probe_core::abi::Kind;

#[cfg(any(feature = "chrome", feature = "firefox"))]
use crate::calls::OffProcessor;
use crate::calls::{Begin, End, Instant};
#[cfg(any(feature = "chrome", feature = "perfetto"))]
use crate::calls::{Slice, Track};
use crate::item::{FieldValue, Gap};

/// The name of the moment from which a thread's times off the processor are not known.
#[cfg(any(feature = "chrome", feature = "firefox", feature = "perfetto"))]
pub(super) const OFF_LOST: &str = "times off the processor lost";

/// An argument that pairing adds to the fields of a hit.
pub(super) type Note = (&'static str, FieldValue);

impl Begin {
    pub(super) fn note(&self) -> Option<Note> {
        self.began_before.then_some(("probe.began_before", FieldValue::Bool(true)))
    }
}

impl End {
    pub(super) fn note(&self) -> Option<Note> {
        let text = self.ending.cause()?.to_owned();
        Some(("probe.ending", FieldValue::Str { text, cut: 0 }))
    }
}

impl Instant {
    pub(super) fn note(&self) -> Option<Note> {
        self.lacks_entry.then_some(("probe.lacks_entry", FieldValue::Bool(true)))
    }

    /// Returns the only numeric field of a point, and its value: exports show it as a line over
    /// time. Where a point has several numbers, they may be anything, such as ids.
    pub(super) fn counter(&self) -> Option<(&str, &FieldValue)> {
        let is_number =
            |value| matches!(value, &FieldValue::U64(_) | &FieldValue::I64(_) | &FieldValue::F64(_));
        let mut numbers = self.fields.iter().filter(|(_, value)| is_number(*value));
        let first = numbers.next().filter(|_| self.fields.definition().kind == Some(Kind::Point))?;
        numbers.next().is_none().then_some(first)
    }
}

impl Gap {
    pub(super) fn notes(&self) -> [Note; 2] {
        let (lost, length) = (self.lost, self.end - self.begin);
        [("lost", lost), ("nanoseconds", length)].map(|(name, number)| (name, FieldValue::U64(number)))
    }
}

#[cfg(any(feature = "chrome", feature = "firefox"))]
impl OffProcessor {
    /// Returns the state of the thread.
    pub(super) fn state(&self) -> &'static str {
        match (self.off.has_ended, self.off.is_ready) {
            (true, _) => "ended",
            (false, true) => "ready",
            (false, false) => "blocked",
        }
    }

    /// Returns the call that waited, and the system call that it waited in.
    pub(super) fn notes(&self) -> impl Iterator<Item = Note> {
        let call = self.off.call.as_ref().map(|call| ("system call", call.to_string()));
        let inside = self.inside.as_ref().map(|probe| ("in", probe.path.clone()));
        inside.into_iter().chain(call).map(|(name, text)| (name, FieldValue::Str { text, cut: 0 }))
    }
}

/// Returns the name of a poll or a wait on its future's own track: its kind. `None` for all other
/// slices, which have the names of their probes.
#[cfg(any(feature = "chrome", feature = "perfetto"))]
pub(super) fn part_name(track: Track, slice: Slice) -> Option<&'static str> {
    (matches!(track, Track::Future(_)) && slice != Slice::Future).then(|| slice.name())
}

/// Returns a path's last two segments: `net::handle` of `app::net::handle`.
#[cfg(feature = "perfetto")]
pub(super) fn short_path(path: &str) -> &str {
    let (mut last, mut before, mut depth, mut skip) = (0, 0, 0_usize, false);
    for (index, byte) in path.bytes().enumerate() {
        match byte {
            b'<' | b'(' | b'[' | b'{' => depth += 1,
            b'>' | b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b':' if depth == 0 && !skip && path[index..].starts_with("::") => {
                (before, last) = (last, index + 2);
                skip = true;
                continue;
            }
            _ => {}
        }
        skip = false;
    }
    // A path of two segments has no earlier one: then both positions say where the last begins.
    if last == 0 { path } else { &path[before..] }
}

/// Returns the crate of a path: `app` of `app::net::handle`, and of `<app::A as B>::c`.
pub(super) fn crate_name(path: &str) -> &str {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let path = path.trim_start_matches(|c| !is_name(c));
    let end = path.find(|c| !is_name(c)).unwrap_or(path.len());
    if end == 0 { "probe" } else { &path[..end] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::{Calls, Step};
    use crate::tests::Fixture;

    #[test]
    fn a_point_with_one_number_counts() {
        let text = || FieldValue::Str { text: "a".to_owned(), cut: 0 };
        let fixture = Fixture::new()
            .fields(1, 10, "point app::one", vec![("to", text()), ("length", FieldValue::I64(-3))])
            .fields(1, 11, "point app::two", vec![("x", FieldValue::U64(1)), ("y", FieldValue::F64(0.5))])
            .fields(1, 12, "point app::none", vec![("to", text())])
            .fields(1, 13, "exit app::f", vec![("result", FieldValue::U64(2))]);
        let counters: Vec<_> = Calls::new(fixture.results())
            .filter_map(|step| match step {
                Ok(Step::Instant(instant)) => Some(instant.counter().map(|(name, _)| name.to_owned())),
                _ => None,
            })
            .collect();
        assert_eq!(counters, [Some("length".to_owned()), None, None, None]);
    }

    #[cfg(feature = "perfetto")]
    #[test]
    fn short_names_have_two_segments() {
        assert_eq!(short_path("app::net::handle"), "net::handle");
        assert_eq!(short_path("net::handle"), "net::handle");
        assert_eq!(short_path("handle"), "handle");
        assert_eq!(short_path("<app::A as b::B<c::C>>::run"), "<app::A as b::B<c::C>>::run");
        assert_eq!(short_path("app::<app::A as b::B>::run"), "<app::A as b::B>::run");
        assert_eq!(short_path("app::größe::∂"), "größe::∂");
        assert_eq!(short_path("a::::b"), "::b");
        assert_eq!(short_path(""), "");
    }

    #[test]
    fn a_path_begins_with_its_crate() {
        assert_eq!(crate_name("app::net::handle"), "app");
        assert_eq!(crate_name("<&mut app::A as b::B>::run"), "mut");
        assert_eq!(crate_name("main"), "main");
        assert_eq!(crate_name("::"), "probe");
    }
}
