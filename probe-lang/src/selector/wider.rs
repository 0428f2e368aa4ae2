//! Suggestions for a selector that names no probe. It may lack the folders before a name, the names
//! in a folder, or `**` in place of `*`. Pure.

use std::ops::Range;

/// Adds selectors similar to this term, whose path is at `path`, the likeliest one first.
pub(super) fn wider(term: &str, path: Range<usize>, all: &mut Vec<String>) {
    let written = &term[path.clone()];
    if written.is_empty() {
        return;
    }
    // Names of packages have hyphens, those of crates have underscores.
    for path_text in [written.to_owned(), written.replace('-', "_")] {
        let with = |text: String| [&term[..path.start], &text, &term[path.end..]].concat();
        if path_text != written {
            all.push(with(path_text.clone()));
        }
        let folder = path_text.strip_suffix('*').filter(|folder| folder.is_empty() || folder.ends_with("::"));
        all.extend(folder.map(|folder| with(format!("{folder}**"))));
        let (is_open, is_inside) = (path_text.ends_with("**"), path_text.starts_with("**"));
        if !is_open {
            all.push(with(format!("{path_text}::**")));
        }
        if !is_inside {
            all.push(with(format!("**::{path_text}")));
        }
        if !is_open && !is_inside {
            all.push(with(format!("**::{path_text}::**")));
        }
        if !written.contains('-') {
            break;
        }
    }
    if written != term {
        all.push(written.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_likeliest_suggestion_comes_first() {
        for (term, path, expected) in [
            ("wordy", 0..5, &["wordy::**", "**::wordy", "**::wordy::**"][..]),
            ("text::*", 0..7, &["text::**", "text::*::**", "**::text::*", "**::text::*::**"]),
            ("*", 0..1, &["**", "*::**", "**::*", "**::*::**"]),
            ("net::**", 0..7, &["**::net::**"]),
            ("**::put", 0..7, &["**::put::**"]),
            (
                "kind=exit put @a.rs",
                10..13,
                &["kind=exit put::** @a.rs", "kind=exit **::put @a.rs", "kind=exit **::put::** @a.rs", "put"],
            ),
            ("my-app::**", 0..10, &["**::my-app::**", "my_app::**", "**::my_app::**"]),
            ("kind=exit", 0..0, &[]),
        ] {
            let mut all = Vec::new();
            wider(term, path, &mut all);
            assert_eq!(all, expected, "{term}");
        }
    }
}
