//! The names of a probe's fields, as a definition holds them: one after the other, each ended by a
//! line feed.

use core::str::SplitTerminator;

/// Returns the index of this name among the fields, whose names each end with a line feed.
///
/// # Panics
/// At compile time, if no field has this name.
pub const fn field_index(fields: &str, name: &str) -> usize {
    let (fields, name) = (fields.as_bytes(), name.as_bytes());
    let (mut index, mut start, mut at) = (0, 0, 0);
    let mut is_same = true;
    while at < fields.len() {
        if fields[at] == b'\n' {
            if is_same && at - start == name.len() {
                return index;
            }
            (index, start, is_same) = (index + 1, at + 1, true);
        } else {
            is_same = is_same && at - start < name.len() && fields[at] == name[at - start];
        }
        at += 1;
    }
    panic!("not a field of this probe")
}

/// The names of a probe's fields, see [`Definition::fields`](super::Definition::fields).
#[derive(Clone, Debug)]
pub struct FieldNames<'a>(SplitTerminator<'a, char>);

impl<'a> Iterator for FieldNames<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        self.0.next()
    }
}

impl<'a> FieldNames<'a> {
    pub(super) fn new(names: &'a str) -> Self {
        Self(names.split_terminator('\n'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_an_index() {
        let fields = "a\nab\nb\nabc\n";
        let names = ["a", "ab", "b", "abc"];
        assert_eq!(names.map(|name| field_index(fields, name)), [0, 1, 2, 3]);
    }
}
