//! What was probably meant by a selector that matches nothing.

use super::nesting::{Escapes, marks, segments};

/// How alike two names must be (Jaro–Winkler, 0 to 1) to be worth showing.
const ALIKE: f64 = 0.7;

/// Up to three of the paths, those that are most like the text, best first.
pub(crate) fn nearest<'a>(text: &str, paths: impl Iterator<Item = &'a str>) -> Vec<String> {
    let last = |path: &str| {
        let segments = segments(path, &marks(path, Escapes::None));
        segments.last().map_or_else(|| path.to_owned(), |range| path[range.clone()].to_owned())
    };
    let wanted = last(text);
    let mut ranked: Vec<(f64, &str)> = paths
        .map(|path| {
            let whole = strsim::jaro_winkler(text, path);
            let name = strsim::jaro_winkler(&wanted, &last(path));
            (whole.max(name), path)
        })
        .filter(|(likeness, _)| *likeness >= ALIKE)
        .collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    ranked.dedup_by(|a, b| a.1 == b.1);
    ranked.into_iter().take(3).map(|(_, path)| path.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_typing_error_finds_its_probe() {
        let paths = ["app::net::handle", "app::net::handle", "app::net::accept", "app::store::put"];
        assert_eq!(nearest("app::net::hanlde", paths.into_iter())[0], "app::net::handle");
        assert_eq!(nearest("handle", paths.into_iter())[0], "app::net::handle");
        let paths = ["geo::Stack<a::push>::pop", "geo::Queue<int>::push"];
        assert_eq!(nearest("push", paths.into_iter()), ["geo::Queue<int>::push"]);
        let paths = ["app::net::handle"];
        assert_eq!(nearest("zzz", paths.into_iter()), Vec::<String>::new());
    }
}
