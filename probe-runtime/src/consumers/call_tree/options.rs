//! The options of a call tree in `PROBES`: `call-tree(depth=8, recursion=full)`.

use super::CallTree;
use probe_lang::syntax::{ParseError, Setting};

impl CallTree {
    /// Creates a tree with these options.
    pub(crate) fn with_settings(settings: &[Setting<'_>]) -> Result<Self, ParseError> {
        settings.iter().try_fold(Self::new(), |tree, it| match (it.name(), it.value()) {
            ("depth", levels) => match levels.parse() {
                Ok(levels) if levels > 0 => Ok(tree.depth(levels)),
                _ => Err(it.invalid_value(format!("`{levels}` is not a depth; write `depth=8`"))),
            },
            (_, "full") => Ok(tree.unfolded()),
            (_, "folded") => Ok(tree),
            (_, other) => Err(it.invalid_value(format!("recursion is `folded` or `full`, not `{other}`"))),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use probe_lang::syntax::settings;

    fn read(options: &str) -> Result<(Option<usize>, bool), (usize, String)> {
        let settings: Vec<_> = settings(options).collect();
        let tree = CallTree::with_settings(&settings).map_err(|it| (it.at, it.problem))?;
        Ok((tree.shape.depth, tree.shape.is_unfolded))
    }

    #[test]
    fn options_are_read() {
        assert_eq!(read("depth=8"), Ok((Some(8), false)));
        assert_eq!(read("recursion=full, depth = 1"), Ok((Some(1), true)));
        assert_eq!(read("recursion=folded"), Ok((None, false)));
    }

    #[test]
    fn an_error_points_at_its_option() {
        for depth in ["0", "-1", "deep", ""] {
            let error = (6, format!("`{depth}` is not a depth; write `depth=8`"));
            assert_eq!(read(&format!("depth={depth}")), Err(error));
        }
        assert_eq!(read("recursion=no"), Err((10, "recursion is `folded` or `full`, not `no`".to_owned())));
    }
}
