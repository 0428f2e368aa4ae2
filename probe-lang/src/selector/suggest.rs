//! Suggestions for a name that is not known, such as one that no probe has.

use super::split_last;

/// Least likeness of a suggestion (Jaro–Winkler, 0 to 1).
const ALIKE: f64 = 0.7;
/// Greatest number of suggestions.
const SHOWN: usize = 3;
/// Longer names, in characters, are not compared: they were not typed by hand.
const LONGEST: usize = 128;
/// Greatest number of comparisons, made only for names with similar letters.
const COMPARISONS: usize = 20_000;

/// Returns up to three names or paths that are most like the text, best first.
pub fn suggest(text: &str, paths: &mut dyn Iterator<Item = &str>) -> Vec<String> {
    search(text, paths).best.into_iter().map(|(_, path)| path.to_owned()).collect()
}

/// Says that a word of a grammar is not known, and which known one may be meant.
pub fn unknown(word: &str, what: &str, known: &[&str]) -> String {
    if word.is_empty() {
        return format!("the {what} is missing here");
    }
    let meant = suggest(word, &mut known.iter().copied()).into_iter().next();
    let meant = meant.map(|meant| format!(" (did you mean `{meant}`?)")).unwrap_or_default();
    format!("`{word}` is no {what}{meant}")
}

#[derive(Default)]
struct Search<'a> {
    best: Vec<(f64, &'a str)>,
    comparisons: usize,
}

fn search<'a>(text: &str, paths: &mut dyn Iterator<Item = &'a str>) -> Search<'a> {
    let (whole, last) = (Name::new(text), Name::new(last_segment(text)));
    let mut search = Search::default();
    for path in paths {
        if search.best.iter().any(|(_, known)| *known == path) {
            continue;
        }
        let likeness = search.likeness(&whole, path).max(search.likeness(&last, last_segment(path)));
        if likeness >= search.least() {
            search.best.push((likeness, path));
            search.best.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
            search.best.truncate(SHOWN);
        }
    }
    search
}

impl Search<'_> {
    /// Returns the likeness that a name must reach to be shown.
    fn least(&self) -> f64 {
        self.best.get(SHOWN - 1).map_or(ALIKE, |(least, _)| *least)
    }

    /// Returns the likeness of a name, or 0 if it can't suffice or no comparison is left.
    fn likeness(&mut self, wanted: &Name<'_>, name: &str) -> f64 {
        let least = self.least();
        if self.comparisons == COMPARISONS || wanted.most(name) < least {
            return 0.0;
        }
        self.comparisons += 1;
        strsim::jaro_winkler(wanted.text, name)
    }
}

/// A name, and the number of its letters of each kind.
struct Name<'a> {
    text: &'a str,
    len: usize,
    letters: [u8; KINDS],
}

const KINDS: usize = 64;

fn kind(c: char) -> usize {
    u32::from(c) as usize % KINDS
}

impl<'a> Name<'a> {
    fn new(text: &'a str) -> Self {
        let mut name = Self { text, len: 0, letters: [0; KINDS] };
        for c in text.chars().take(LONGEST + 1) {
            name.len += 1;
            name.letters[kind(c)] += 1;
        }
        name
    }

    /// Returns an upper bound of the likeness to another name: the likeness if all letters of both
    /// were at the right places.
    fn most(&self, other: &str) -> f64 {
        let (mut left, mut len, mut common) = (self.letters, 0_usize, 0_usize);
        for c in other.chars().take(LONGEST + 1) {
            len += 1;
            let letters = &mut left[kind(c)];
            if *letters != 0 {
                *letters -= 1;
                common += 1;
            }
        }
        if len > LONGEST || self.len > LONGEST || common == 0 {
            return 0.0;
        }
        let prefix = self.text.chars().zip(other.chars()).take(4).take_while(|(a, b)| a == b).count();
        let (own, other, common, prefix) = (self.len as f64, len as f64, common as f64, prefix as f64);
        let jaro = (common / own + common / other + 1.0) / 3.0;
        jaro + 0.1 * prefix * (1.0 - jaro)
    }
}

fn last_segment(path: &str) -> &str {
    split_last(path).1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_typing_error_finds_its_probe() {
        let paths = ["app::net::handle", "app::net::handle", "app::net::accept", "app::store::put"];
        assert_eq!(suggest("app::net::hanlde", &mut paths.into_iter())[0], "app::net::handle");
        assert_eq!(suggest("handle", &mut paths.into_iter())[0], "app::net::handle");
        let paths = ["geo::Stack<a::push>::pop", "geo::Queue<int>::push"];
        assert_eq!(suggest("push", &mut paths.into_iter()), ["geo::Queue<int>::push"]);
        let paths = ["app::net::handle"];
        assert_eq!(suggest("zzz", &mut paths.into_iter()), Vec::<String>::new());
    }

    #[test]
    fn long_names_and_many_cost_no_more_than_some() {
        let long = "a".repeat(60_000);
        let found = search(&long, &mut [long.as_str(), "a"].into_iter());
        assert_eq!((found.best.len(), found.comparisons), (0, 0));
        // By their letters alone, all names are equally alike.
        let many: Vec<String> = (0..50_000).map(|n| format!("{n:017b}")).collect();
        let found = search("01010101010101010", &mut many.iter().map(String::as_str));
        assert!(found.comparisons <= COMPARISONS, "{}", found.comparisons);
        // Names with other letters are not compared.
        assert_eq!(search("zzzz", &mut many.iter().map(String::as_str)).comparisons, 0);
    }

    proptest! {
        #[test]
        fn nothing_is_more_alike_than_its_letters_tell(a in "[abé_:]{0,12}", b in "[abé_:]{0,12}") {
            prop_assert!(strsim::jaro_winkler(&a, &b) <= Name::new(&a).most(&b) + 1e-9 || a.is_empty());
        }

        #[test]
        fn the_best_are_found(
            text in "[abc]{1,5}(::[abc]{1,5})?",
            paths in prop::collection::vec("[abc]{1,5}(::[abc]{1,5})?", 0..20),
        ) {
            let likeness = |path: &str| {
                let name = strsim::jaro_winkler(last_segment(&text), last_segment(path));
                strsim::jaro_winkler(&text, path).max(name)
            };
            let mut all: Vec<_> = paths.iter().map(|path| (likeness(path), path.as_str())).collect();
            all.retain(|(likeness, _)| *likeness >= ALIKE);
            all.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
            all.dedup();
            all.truncate(SHOWN);
            let best: Vec<_> = all.into_iter().map(|(_, path)| path.to_owned()).collect();
            prop_assert_eq!(suggest(&text, &mut paths.iter().map(String::as_str)), best);
        }
    }
}
