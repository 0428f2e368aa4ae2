//! The names of a table's rows: definitions that share a path are distinguished by file and line,
//! and names fit a width. Their ends stay, since names differ there. And nouns, with their numbers.

use std::borrow::Cow;
use std::iter;

/// The definition of a row's function or probe.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Definition<'a> {
    pub path: &'a str,
    /// Empty for a row without a definition, such as a thread.
    pub file: &'a str,
    /// 0 if it is unknown.
    pub line: u32,
}

/// Returns the labels of a table's rows: the path, or `path (src/a.rs:12)` if another row of the
/// table has the same path and a different definition.
pub fn labels(rows: Vec<Definition<'_>>) -> Vec<String> {
    let mut labels: Vec<_> = rows.iter().map(|row| row.path.to_owned()).collect();
    let mut rows: Vec<_> = rows.into_iter().enumerate().collect();
    rows.sort_by(|(_, a), (_, b)| a.path.cmp(b.path));
    let alike = rows.chunk_by(|(_, a), (_, b)| a.path == b.path);
    for rows in alike.filter(|rows| rows.iter().any(|(_, row)| *row != rows[0].1)) {
        for (at, Definition { path, file, line }) in rows {
            match (*file, *line) {
                ("", _) => (),
                (file, 0) => labels[*at] = format!("{path} ({file})"),
                (file, line) => labels[*at] = format!("{path} ({file}:{line})"),
            }
        }
    }
    labels
}

/// Cuts the beginning of a text to a width in characters.
pub fn ending(text: &str, width: usize) -> Cow<'_, str> {
    let length = text.chars().count();
    if length <= width {
        return text.into();
    }
    let kept = text.chars().skip(length + 1 - width.max(1));
    iter::once('…').chain(kept).take(width).collect::<String>().into()
}

/// Cuts the end.
pub fn beginning(text: &str, width: usize) -> Cow<'_, str> {
    if text.chars().count() <= width {
        return text.into();
    }
    text.chars().take(width.saturating_sub(1)).chain(iter::once('…')).take(width).collect::<String>().into()
}

/// Cuts the middle.
fn ends(text: &str, width: usize) -> String {
    let (length, kept) = (text.chars().count(), width.saturating_sub(1));
    let (first, last) = (kept / 2, kept - kept / 2);
    text.chars().take(first).chain(iter::once('…')).chain(text.chars().skip(length - last)).collect()
}

/// Shortens a name to a width: its arguments of templates become `…`, and then it loses its
/// beginning.
pub fn shortened(name: &str, width: usize) -> Cow<'_, str> {
    if name.chars().count() <= width {
        return name.into();
    }
    folded(name).map_or_else(|| ending(name, width), |it| ending(&it, width).into_owned().into())
}

/// Shortens names to a width. Those that were different stay so, where a part of them can tell.
pub fn names(whole: &[&str], width: usize) -> Vec<String> {
    let mut short: Vec<_> = whole.iter().map(|it| shortened(it, width).into_owned()).collect();
    let others: [fn(&str, usize) -> String; 2] = [|it, width| ending(it, width).into_owned(), ends];
    for other in others {
        let mut order: Vec<_> = (0..whole.len()).collect();
        order.sort_by(|a, b| short[*a].cmp(&short[*b]));
        let alike = order.chunk_by(|a, b| short[*a] == short[*b]);
        let ambiguous: Vec<_> = alike
            .filter(|alike| alike.iter().any(|at| whole[*at] != whole[alike[0]]))
            .flatten()
            .filter(|at| whole[**at].chars().count() > width)
            .copied()
            .collect();
        ambiguous.iter().for_each(|at| short[*at] = other(whole[*at], width));
    }
    short
}

/// Replaces the arguments of C++ templates by `…`: `std::vector<…>::push_back`. `None` if there are
/// none, or if the brackets do not pair.
fn folded(name: &str) -> Option<String> {
    let (mut out, mut depth, mut before) = (String::with_capacity(name.len()), 0_usize, ' ');
    let mut chars = name.chars().peekable();
    let mut is_folded = false;
    while let Some(c) = chars.next() {
        match c {
            '<' | '=' | '>' | '-' if depth == 0 && out.ends_with("operator") => {
                out.push(c);
                while let Some(c) = chars.next_if(|it| "<=>-".contains(*it)) {
                    out.push(c);
                }
            }
            // In Rust, `<T as Trait>` begins a path.
            '<' if depth != 0 || before.is_alphanumeric() || before == '_' => {
                if depth == 0 {
                    out.push_str("<…>");
                    is_folded = true;
                }
                depth += 1;
            }
            '>' if depth != 0 && before != '-' => depth -= 1,
            _ if depth == 0 => out.push(c),
            _ => (),
        }
        before = c;
    }
    (is_folded && depth == 0).then_some(out)
}

/// Returns a number of things: `1 call`, `2 calls`.
pub fn count(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Returns the same with a verb: `1 call was`, `2 calls were`.
pub fn was(number: u64, noun: &str) -> String {
    format!("{} {}", count(number, noun), if number == 1 { "was" } else { "were" })
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
            labels(rows.map(|(path, file, line)| Definition { path, file, line }).into()),
            [
                "app::read (src/a.rs:12)", "app::read (src/b.rs:12)", "app::read (src/b.rs:30)",
                "app::write", "app::write", "start (libone.so)", "start (libtwo.so)", "start",
            ]
        );
        assert_eq!(labels(Vec::new()), [""; 0]);
    }

    #[test]
    fn arguments_of_templates_are_folded() {
        for (name, expected) in [
            ("std::vector<int, std::allocator<int>>::push_back", Some("std::vector<…>::push_back")),
            ("f(std::map<int, A<B> > const&)", Some("f(std::map<…> const&)")),
            ("A<void (*)(int) -> B>::go", Some("A<…>::go")),
            ("operator<< <char>(A<int>)", Some("operator<< <char>(A<…>)")),
            ("A::operator->", None),
            ("A::operator<=>", None),
            ("a::Less<<b", None),
            ("<T as app::Trait>::go", None),
            ("app::go", None),
        ] {
            assert_eq!(folded(name).as_deref(), expected, "{name}");
        }
    }

    #[test]
    fn different_names_stay_different() {
        assert_eq!(
            names(&["a::read", "app::first::read", "app::other::read", "app::Pool<int>::get"], 11),
            ["a::read", "…irst::read", "…ther::read", "…ol<…>::get"],
        );
        assert_eq!(
            names(&["one::two::three::read", "six::two::three::read"], 10),
            ["one:…:read", "six:…:read"]
        );
        assert_eq!(names(&["app::go<int>", "app::go<char>"], 11), ["…p::go<int>", "…::go<char>"]);
        // The same name twice, such as an entry and its exit.
        assert_eq!(names(&["app::store::go", "app::store::go"], 8), ["…ore::go", "…ore::go"]);
        assert_eq!(ending("app::go", 0), "");
        assert_eq!(ending("app::go", 1), "…");
    }
}
