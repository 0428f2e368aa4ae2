//! Callers of a function, and functions that it calls, among the probed ones.

use std::collections::BTreeMap;

use super::reports::{Node, Report};

/// The calls from one function to another.
#[derive(Clone, PartialEq, Debug)]
pub struct Edge {
    /// The other function; `None` if no probed one is around the call.
    pub path: Option<String>,
    /// Calls since somebody has asked.
    pub calls: f64,
    /// Nanoseconds of these.
    pub total: f64,
}

/// The neighbours of a function.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Callers {
    /// The function.
    pub path: String,
    /// Seconds since somebody has asked.
    pub seconds: f64,
    /// Its callers, those with most calls first.
    pub around: Vec<Edge>,
    /// The functions that it calls, those with most time first.
    pub called: Vec<Edge>,
}

impl Callers {
    /// Reads the neighbours from a tree of calls.
    pub fn new(path: &str, report: &Report<Node>) -> Self {
        let name = |at: Option<usize>| report.rows.get(at?).and_then(|it| it.function.clone());
        let (mut above, mut below) = (BTreeMap::new(), BTreeMap::new());
        let add = |to: &mut BTreeMap<Option<String>, (f64, f64)>, key, node: &Node| {
            let sums = to.entry(key).or_default();
            *sums = (sums.0 + node.calls, sums.1 + node.total_ns);
        };
        for node in report.rows.iter().filter(|it| it.thread.is_none()) {
            let caller = name(node.parent);
            if node.function.as_deref() == Some(path) {
                add(&mut above, caller.clone(), node);
            }
            if caller.as_deref() == Some(path) {
                add(&mut below, node.function.clone(), node);
            }
        }
        let edges = |of: BTreeMap<_, _>| -> Vec<Edge> {
            of.into_iter().map(|(path, (calls, total))| Edge { path, calls, total }).collect()
        };
        let [mut around, mut called] = [above, below].map(edges);
        around.sort_by(|a, b| b.calls.total_cmp(&a.calls));
        called.sort_by(|a, b| b.total.total_cmp(&a.total));
        Self { path: path.to_owned(), seconds: report.duration, around, called }
    }
}
