//! Suggestions for a selector that names no probe: broader selectors that name some, or names like
//! those in it. The selector may lack the folders before a name, the names in a folder, or `**` in
//! place of `*`. Pure.

use std::fmt;
use std::ops::Range;

use super::{Selectable, Selector, suggest};
use crate::error::shortened;

/// The number of suggestions.
const SHOWN: usize = 3;

/// Likely meanings of a selector that names no probe. They print as a question, or as nothing if
/// there is none.
///
/// ```
/// use probe_runtime::selector::Selectable;
/// use probe_runtime::{Kind, Selector};
///
/// struct Point(&'static str);
/// impl Selectable for Point {
///     fn path(&self) -> &str { self.0 }
///     fn kind(&self) -> Kind { Kind::Point }
///     fn file(&self) -> &str { "src/net.rs" }
///     fn line(&self) -> u32 { 7 }
/// }
///
/// let probes = [Point("app::net::accept"), Point("app::net::handle")];
/// let suggest = |selector| Selector::parse(selector).map(|it| it.suggest(probes.iter()).to_string());
/// assert_eq!(suggest("net::*")?, "did you mean `**::net::*` (2 probes)?");
/// assert_eq!(suggest("app::net::hanlde")?, "did you mean `app::net::handle`, `app::net::accept`?");
/// assert_eq!(suggest("zzz")?, "");
/// # Ok::<(), probe_runtime::selector::SelectorError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Suggestions {
    /// Similar selectors that match some probes, the likeliest first, each with its number of
    /// probes.
    pub wider: Vec<(String, usize)>,
    /// Paths of the likeliest probes, best first; groups as `group=…`.
    pub nearest: Vec<String>,
}

impl fmt::Display for Suggestions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        did_you_mean(&self.wider, &self.nearest, f)
    }
}

/// Writes the wider selectors, or else the nearest names.
pub fn did_you_mean(
    wider: &[(String, usize)],
    nearest: &[String],
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    match (wider, nearest) {
        ([], []) => Ok(()),
        ([], nearest) => write!(f, "did you mean `{}`?", nearest.join("`, `")),
        (wider, _) => {
            let wider = wider.iter().map(|(selector, n)| {
                let s = if *n == 1 { "" } else { "s" };
                format!("`{}` ({n} probe{s})", shortened(selector))
            });
            write!(f, "did you mean {}?", wider.collect::<Vec<_>>().join(", "))
        }
    }
}

impl Selector {
    /// Suggests other selectors and names, for a selector that names none of these probes. See
    /// [`Suggestions`] for an example.
    pub fn suggest<'a, T: Selectable + 'a>(
        &self,
        probes: impl Iterator<Item = &'a T> + Clone,
    ) -> Suggestions {
        self.suggest_among(&probes.clone(), probes)
    }

    /// Suggests selectors of some of these probes, or the names of others.
    pub fn suggest_among<'a, T: Selectable + 'a>(
        &self,
        probes: &(impl Iterator<Item = &'a T> + Clone),
        names: impl Iterator<Item = &'a T> + Clone,
    ) -> Suggestions {
        let mut wider: Vec<(String, usize)> = Vec::new();
        for candidate in self.wider() {
            let Ok(parsed) = Self::parse(&candidate) else { continue };
            let count = probes.clone().filter(|probe| parsed.matches(*probe)).count();
            // The same number of probes means the same probes under a longer name.
            if count != 0 && wider.len() < SHOWN && wider.iter().all(|(_, known)| *known != count) {
                wider.push((candidate, count));
            }
        }
        let mut known: Vec<_> = names.clone().filter_map(Selectable::group).collect();
        known.sort_by(Ord::cmp);
        known.dedup();
        let mut alike = Vec::new();
        for group in self.unknown_groups(&known) {
            alike.extend(suggest(group, &mut known.iter().copied()).iter().map(|it| format!("group={it}")));
        }
        if let Some(path) = self.path() {
            alike.extend(suggest(path, &mut names.map(Selectable::path)));
        }
        alike.truncate(SHOWN);
        Suggestions { wider, nearest: alike }
    }

    /// Returns the selector's terms that name none of these probes, as they were written, without
    /// their `!`.
    ///
    /// ```
    /// use probe_runtime::selector::Selectable;
    /// use probe_runtime::{Kind, Selector};
    ///
    /// struct Point(&'static str);
    /// impl Selectable for Point {
    ///     fn path(&self) -> &str { self.0 }
    ///     fn kind(&self) -> Kind { Kind::Point }
    ///     fn file(&self) -> &str { "src/net.rs" }
    ///     fn line(&self) -> u32 { 7 }
    /// }
    ///
    /// let selector = Selector::parse("net::*, db::*, !net::poll")?;
    /// assert_eq!(selector.unmatched([Point("net::handle")].iter()), ["db::*", "net::poll"]);
    /// # Ok::<(), probe_runtime::selector::SelectorError>(())
    /// ```
    pub fn unmatched<'a, T: Selectable + 'a>(&self, probes: impl Iterator<Item = &'a T>) -> Vec<&str> {
        let mut named = self.named();
        for probe in probes {
            self.matches_noting(probe, &mut named, || false);
        }
        self.unnamed(&named).collect()
    }
}

/// Adds selectors broader than this term, whose path is at `path`, the likeliest one first.
pub(super) fn broaden(term: &str, path: Range<usize>, all: &mut Vec<String>) {
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
            broaden(term, path, &mut all);
            assert_eq!(all, expected, "{term}");
        }
    }
}
