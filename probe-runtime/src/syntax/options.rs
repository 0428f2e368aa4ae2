//! What stands in parentheses after a consumer: `profile(budget=1%, text=alias)`. Pure.

use super::Mistake;
use crate::patch::TextPolicy;

/// One option: `name=value`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Setting<'a> {
    pub(crate) name: &'a str,
    pub(crate) value: &'a str,
    /// The byte of the options where its name begins.
    at: usize,
    /// The same of its value.
    value_at: usize,
}

impl Setting<'_> {
    /// Its name is wrong.
    pub(crate) fn mistake(&self, problem: impl Into<String>) -> Mistake {
        Mistake { at: self.at, problem: problem.into() }
    }

    /// Its value is wrong, from this byte of it on.
    pub(crate) fn mistaken_value(&self, at: usize, problem: impl Into<String>) -> Mistake {
        Mistake { at: self.value_at + at, problem: problem.into() }
    }
}

/// The options, cut at commas; names and values without the spaces around them.
pub(crate) fn settings(options: &str) -> impl Iterator<Item = Setting<'_>> {
    let mut start = 0;
    options.split(',').map(move |option| {
        let before = start;
        start += option.len() + 1;
        let lead = |text: &str| text.len() - text.trim_start().len();
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        let value_at = (before + name.len() + 1 + lead(value)).min(before + option.len());
        Setting { name: name.trim(), value: value.trim(), at: before + lead(name), value_at }
    })
}

/// The option that every consumer has: for how long text is writable.
pub(crate) const TEXT: &str = "text";

/// Reads [`TEXT`].
pub(crate) fn text(setting: &Setting<'_>) -> Result<TextPolicy, Mistake> {
    match setting.value {
        "sealed" => Ok(TextPolicy::Sealed),
        "open" => Ok(TextPolicy::Open),
        "alias" => Ok(TextPolicy::Alias),
        other => {
            let problem = format!("`{other}` is not a text policy; there are sealed, open and alias");
            Err(setting.mistaken_value(0, problem))
        }
    }
}

/// Where a term assigns, and where it ends, if it ends with one of these consumers and its options:
/// these have commas and a `=` of their own.
pub(crate) fn with_options(
    value: &str,
    at: usize,
    end: usize,
    consumers: impl Iterator<Item = &'static str>,
) -> Option<(usize, usize)> {
    let term = &value[at..end];
    let options = |name: &str| {
        let open = term.rmatch_indices('(').find(|(open, _)| term[..*open].ends_with(name))?.0;
        let before = term[..open - name.len()].trim_end().strip_suffix('=')?;
        let closed = at + open + value[at + open..].find(')')? + 1;
        let rest = value[closed..].split(',').next()?;
        Some((at + before.len(), closed + rest.len()))
    };
    consumers.filter_map(options).max()
}

/// A consumer, and what stands in parentheses after it.
pub(crate) fn split_options(consumer: &str) -> (&str, Option<&str>) {
    let split = consumer.strip_suffix(')').and_then(|text| text.split_once('('));
    split.map_or((consumer, None), |(consumer, options)| (consumer, Some(options)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_know_where_they_stand() {
        let cut = |options| -> Vec<_> {
            settings(options).map(|it| (it.name, it.value, it.at, it.value_at)).collect()
        };
        assert_eq!(
            cut("events=cycles+ipc, budget = 1%"),
            [("events", "cycles+ipc", 0, 7), ("budget", "1%", 19, 28)]
        );
        assert_eq!(cut(""), [("", "", 0, 0)]);
        assert_eq!(cut("a="), [("a", "", 0, 2)]);
        assert_eq!(cut("a,"), [("a", "", 0, 1), ("", "", 2, 2)]);
    }

    #[test]
    fn text_has_three_policies() {
        let read = |options| text(&settings(options).next().unwrap());
        assert!(matches!(read("text=alias"), Ok(TextPolicy::Alias)));
        assert!(matches!(read("text = open"), Ok(TextPolicy::Open)));
        assert!(matches!(read("text=sealed"), Ok(TextPolicy::Sealed)));
        let mistake = read("text= shut").unwrap_err();
        assert_eq!(
            (mistake.at, mistake.problem.as_str()),
            (6, "`shut` is not a text policy; there are sealed, open and alias")
        );
    }

    proptest::proptest! {
        #[test]
        fn a_setting_lies_in_its_options(options: String) {
            for it in settings(&options) {
                proptest::prop_assert!(options[it.at..].starts_with(it.name));
                proptest::prop_assert!(options[it.value_at..].starts_with(it.value));
            }
        }
    }
}
