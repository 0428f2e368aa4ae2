//! `only("handle_*", …)` and `except("get_*", …)`: filters over the functions of a block.
//!
//! A glob is matched with a function's name, or, if it has a `::`, with `Type::method`. A `*`
//! stands for any letters except `::`. A glob that names no function is an error: most likely it is
//! misspelt.

use std::cell::{Cell, RefCell};

use syn::LitStr;

use crate::model::{Errors, Filter, Settings};

/// The filters of one block.
pub(super) struct BlockFilters<'s> {
    only: Option<Globs<'s>>,
    except: Option<Globs<'s>>,
    /// The names that were matched, for messages.
    names: RefCell<Vec<String>>,
}

struct Globs<'s> {
    filter: &'s Filter,
    is_used: Vec<Cell<bool>>,
}

impl<'s> BlockFilters<'s> {
    pub(super) fn of(settings: &'s Settings) -> Option<Self> {
        let globs = |filter: &'s Option<Filter>| filter.as_ref().map(Globs::new);
        let (only, except) = (globs(&settings.only), globs(&settings.except));
        (only.is_some() || except.is_some()).then(|| Self { only, except, names: RefCell::default() })
    }

    /// Returns `Some(false)` for excluded names, and `Some(true)` for names that an `only`
    /// includes.
    pub(super) fn passes(&self, name: &str, whole: &str) -> Option<bool> {
        self.names.borrow_mut().push(whole.to_owned());
        let is_named = self.only.as_ref().map(|globs| globs.name(name, whole));
        let is_excluded = self.except.as_ref().is_some_and(|globs| globs.name(name, whole));
        if is_excluded { Some(false) } else { is_named }
    }

    /// Adds an error for each glob that has named no function.
    pub(super) fn check_use(&self, errors: &mut Errors) {
        for globs in [&self.only, &self.except].into_iter().flatten() {
            let unused = globs.filter.globs.iter().zip(&globs.is_used).filter(|(_, is_used)| !is_used.get());
            for (glob, _) in unused {
                let word = &globs.filter.word;
                errors.at(
                    glob,
                    format!("`{word}({:?})` names no function of this block{}", glob.value(), self.shown()),
                );
            }
        }
    }

    /// Returns some of the names as text for a message.
    fn shown(&self) -> String {
        let names = self.names.borrow();
        match names.as_slice() {
            [] => ", which has none".to_owned(),
            [name] => format!("; there is `{name}`"),
            names if names.len() <= 4 => format!("; there are `{}`", names.join("`, `")),
            names => format!("; there are `{}` and {} more", names[..3].join("`, `"), names.len() - 3),
        }
    }
}

impl<'s> Globs<'s> {
    fn new(filter: &'s Filter) -> Self {
        Self { filter, is_used: vec![Cell::new(false); filter.globs.len()] }
    }

    fn name(&self, name: &str, whole: &str) -> bool {
        let mut is_named = false;
        for (glob, is_used) in self.filter.globs.iter().zip(&self.is_used) {
            let glob = glob.value();
            if matches(&glob, if glob.contains("::") { whole } else { name }) {
                is_used.set(true);
                is_named = true;
            }
        }
        is_named
    }
}

/// Checks that the glob is well-formed; adds an error if not.
pub(super) fn check(glob: &LitStr, errors: &mut Errors) -> bool {
    let value = glob.value();
    let is_wrong = |c: &char| !(c.is_alphanumeric() || "_-.*".contains(*c));
    if let Some(wrong) = value.split("::").flat_map(str::chars).find(is_wrong) {
        let allowed = "it is a function's name or `Type::method`, with `*` for any letters";
        errors.at(glob, format!("a filter can't contain {wrong:?}; {allowed}"));
    } else if value.split("::").any(str::is_empty) {
        errors.at(
            glob,
            "a filter needs a name, and one on each side of a `::`; write `\"get_*\"` or `\"Type::*\"`",
        );
    } else {
        return true;
    }
    false
}

/// Returns whether the whole name matches.
fn matches(glob: &str, name: &str) -> bool {
    let (globs, names): (Vec<_>, Vec<_>) = (glob.split("::").collect(), name.split("::").collect());
    globs.len() == names.len() && globs.iter().zip(names).all(|(glob, name)| segment_matches(glob, name))
}

fn segment_matches(glob: &str, name: &str) -> bool {
    let Some((start, rest)) = glob.split_once('*') else { return glob == name };
    let Some(mut name) = name.strip_prefix(start) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let end = parts.pop().unwrap_or_default();
    for part in parts {
        let Some(at) = name.find(part) else { return false };
        name = &name[at + part.len()..];
    }
    name.ends_with(end)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn globs() {
        for (glob, name, expected) in [
            ("get", "get", true),
            ("get", "get_x", false),
            ("get_*", "get_", true),
            ("get_*", "forget_x", false),
            ("*get*", "forget_x", true),
            ("*_x", "get_x", true),
            ("a*b*a", "aba", true),
            ("a*a", "a", false),
            ("*", "Type::get", false),
            ("Type::*", "Type::get", true),
            ("*::get", "Type::get", true),
            ("T*::g*t", "Type::get", true),
            ("Type::*", "Other::get", false),
        ] {
            assert_eq!(matches(glob, name), expected, "{glob} on {name}");
        }
    }
}
