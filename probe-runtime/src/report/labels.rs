//! The names of a table's rows. Definitions that share a path are distinguished by file and line.

use crate::engine::calls::Function;
use crate::engine::order::sort_by;
use crate::engine::registry::ProbeInfo;

/// The definition of a row's function or probe.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct RowDefinition<'a> {
    pub(crate) path: &'a str,
    /// Empty for a row without a definition, such as a thread.
    pub(crate) file: &'a str,
    /// 0 if it is unknown.
    pub(crate) line: u32,
}

impl<'a> From<&'a Function> for RowDefinition<'a> {
    fn from(function: &'a Function) -> Self {
        Self { path: function.path(), file: function.file(), line: function.line() }
    }
}

impl<'a> From<&'a ProbeInfo> for RowDefinition<'a> {
    fn from(probe: &'a ProbeInfo) -> Self {
        Self { path: probe.path(), file: probe.file(), line: probe.line() }
    }
}

/// Returns the labels of a table's rows: the path, or `path (src/a.rs:12)` if another row of the
/// table has the same path and a different definition.
pub(crate) fn labels(rows: Vec<RowDefinition<'_>>) -> Vec<String> {
    let mut labels: Vec<_> = rows.iter().map(|row| row.path.to_owned()).collect();
    let mut rows: Vec<_> = rows.into_iter().enumerate().collect();
    sort_by(&mut rows, |(_, a), (_, b)| a.path.cmp(b.path));
    let alike = rows.chunk_by(|(_, a), (_, b)| a.path == b.path);
    for rows in alike.filter(|rows| rows.iter().any(|(_, row)| *row != rows[0].1)) {
        for (at, RowDefinition { path, file, line }) in rows {
            match (*file, *line) {
                ("", _) => (),
                (file, 0) => labels[*at] = format!("{path} ({file})"),
                (file, line) => labels[*at] = format!("{path} ({file}:{line})"),
            }
        }
    }
    labels
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ambiguous_paths_have_their_place() {
        let rows = [
            ("app::read", "src/a.rs", 12),
            ("app::read", "src/b.rs", 12),
            ("app::read", "src/b.rs", 30),
            // Such as the entry and the exit of one function.
            ("app::write", "src/a.rs", 20),
            ("app::write", "src/a.rs", 20),
            // Without debug information.
            ("start", "libone.so", 0),
            ("start", "libtwo.so", 0),
            ("start", "", 0),
        ];
        assert_eq!(
            labels(rows.map(|(path, file, line)| RowDefinition { path, file, line }).into()),
            [
                "app::read (src/a.rs:12)", "app::read (src/b.rs:12)", "app::read (src/b.rs:30)",
                "app::write", "app::write", "start (libone.so)", "start (libtwo.so)", "start",
            ]
        );
        assert_eq!(labels(Vec::new()), [""; 0]);
    }
}
