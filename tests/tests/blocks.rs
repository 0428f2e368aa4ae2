//! `#[probe]` on blocks: the functions that become probes, their paths, the excluded functions with
//! their reasons, selectors, and groups. A process of its own: it compares the whole listing.

use std::fmt;

use probe_runtime::{Count, Error, Kind, ProbeInfo, probe, probes, select};

struct Stack<T> {
    items: Vec<T>,
}

#[probe(group = "data::stack")]
impl<T: Clone> Stack<T>
where
    [T]: ToOwned,
{
    pub(crate) const LIMIT: usize = 4;

    pub(crate) fn push(&mut self, item: T) -> bool {
        if self.is_full() {
            probe!("full", limit = Self::LIMIT);
            return false;
        }
        self.items.push(item);
        true
    }

    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    pub(crate) const fn limit() -> usize {
        Self::LIMIT
    }

    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        let len = self.len();
        len == Self::limit()
    }

    #[probe(name = "reset", doc = "Everything is thrown away.")]
    pub(crate) fn clear(&mut self) {
        self.items.clear();
    }

    #[probe(skip)]
    pub(crate) fn twice(&mut self, item: &T) {
        self.push(item.clone());
        self.push(item.clone());
    }
}

#[probe(except("fmt"))]
impl<T> fmt::Debug for Stack<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let len = self.items.len();
        write!(f, "{len}")
    }
}

#[probe]
trait Shape {
    fn area(&self) -> u32;

    fn twice(&self) -> u32 {
        let area = self.area();
        2 * area
    }
}

#[probe(all)]
impl Shape for &[u32] {
    fn area(&self) -> u32 {
        self.iter().sum()
    }
}

#[probe]
impl Shape for (u32, u32) {
    fn area(&self) -> u32 {
        let (a, b) = self;
        a * b
    }
}

#[probe]
impl dyn Shape {
    fn thrice(&self) -> u32 {
        let area = self.area();
        3 * area
    }
}

#[probe(group = "net", only("handle_*", "Server::*"))]
mod net {
    pub(crate) struct Server;

    impl Server {
        pub(crate) fn port() -> u16 {
            80
        }
    }

    pub(crate) fn handle_get() -> u32 {
        let answer = inner::deep();
        answer + 1
    }

    pub(crate) fn helper() -> u32 {
        let answer = 1;
        answer + 1
    }

    #[probe_runtime::probe(group = "net::inner")]
    pub(crate) mod inner {
        #[probe]
        pub(crate) fn deep() -> u32 {
            40
        }

        #[cfg(any())]
        fn absent() {}

        #[probe(skip)]
        pub(crate) mod deeper {
            pub(crate) fn skipped() -> u32 {
                let answer = 1;
                answer + 1
            }
        }
    }
}

type Row = (String, Kind, Option<String>, Option<String>);

fn row(probe: &ProbeInfo) -> Row {
    let owned = |text: Option<&str>| text.map(str::to_owned);
    (probe.path().to_owned(), probe.kind(), owned(probe.group()), owned(probe.skipped()))
}

fn run() {
    let mut stack = Stack { items: Vec::new() };
    for n in 0..=Stack::<u8>::LIMIT {
        assert_eq!(stack.push(n), n < 4);
    }
    stack.twice(&1);
    assert_eq!((stack.len(), format!("{stack:?}").as_str()), (4, "4"));
    stack.clear();
    let numbers: &[u32] = &[1, 2];
    assert_eq!((numbers.area(), numbers.twice(), (2, 3).twice()), (3, 6, 12));
    assert_eq!((&(2_u32, 3_u32) as &dyn Shape).thrice(), 18);
    assert_eq!((net::handle_get(), net::helper(), net::Server::port()), (41, 2, 80));
    assert_eq!(net::inner::deeper::skipped(), 2);
}

fn expected() -> Vec<Row> {
    let mut rows = Vec::new();
    let mut add = |path: &str, kinds: &[Kind], group: Option<&str>, skipped: Option<&str>| {
        for kind in kinds {
            rows.push((
                format!("blocks::{path}"),
                *kind,
                group.map(str::to_owned),
                skipped.map(str::to_owned),
            ));
        }
    };
    let both = &[Kind::Entry, Kind::Exit];
    let entry = &[Kind::Entry];
    let stack = Some("data::stack");
    add("Shape::area", entry, None, Some("bodiless"));
    add("Shape::twice", both, None, None);
    add("Stack::fmt", entry, None, Some("filtered"));
    add("Stack::is_full", entry, stack, Some("inline"));
    add("Stack::len", entry, stack, Some("small"));
    add("Stack::limit", entry, stack, Some("const"));
    add("Stack::push", both, stack, None);
    add("Stack::reset", both, stack, None);
    add("Stack::twice", entry, stack, Some("asked"));
    add("dyn-Shape::thrice", both, None, None);
    add("full", &[Kind::Point], stack, None);
    add("net::Server::port", both, Some("net"), None);
    add("net::handle_get", both, Some("net"), None);
    add("net::helper", entry, Some("net"), Some("filtered"));
    add("net::inner::deep", both, Some("net::inner"), None);
    add("net::inner::deeper::skipped", entry, Some("net::inner"), Some("asked"));
    add("ref-slice-u32::area", both, None, None);
    add("tuple::area", both, None, None);
    rows
}

/// One test: the listing is one.
#[test]
fn every_function_is_a_probe_or_says_why_not() {
    run();
    let list = probes();
    assert_eq!(list.iter().map(row).collect::<Vec<_>>(), expected());
    assert!(list.iter().filter(|probe| probe.skipped().is_some()).all(|probe| probe.sites() == 0));
    assert!(list.iter().filter(|probe| probe.skipped().is_none()).all(|probe| probe.sites() != 0));
    let named = |path: &str| list.iter().find(|probe| probe.path().ends_with(path)).unwrap();
    assert_eq!(named("::reset").doc(), Some("Everything is thrown away."));
    assert_eq!(named("::push").doc(), None);
    let len = named("::len");
    assert_eq!(
        len.to_string(),
        format!("blocks::Stack::len entry {}:{} skipped (small)", len.file(), len.line())
    );
    let source = include_str!("blocks.rs");
    for (path, function) in [
        ("Stack::len", "pub(crate) fn len"),
        ("Stack::limit", "pub(crate) const fn limit"),
        ("Stack::push", "pub(crate) fn push"),
    ] {
        let line = 1 + source.lines().position(|line| line.trim_start().starts_with(function)).unwrap();
        assert_eq!(named(path).line() as usize, line);
    }
    selects_what_is_not_skipped(&list);
    groups_are_selected();
    counts();
}

fn selects_what_is_not_skipped(list: &[ProbeInfo]) {
    let live = list.iter().filter(|probe| probe.skipped().is_none()).count();
    assert_eq!(select("**").unwrap().len(), live);
    assert_eq!(select("blocks::Stack::*").unwrap().len(), 4);
    let refused = |selector: &str| select(selector).unwrap_err().to_string();
    assert_eq!(
        refused("**::len"),
        "`**::len` matches only functions that were left out: `blocks::Stack::len` (small); \
         put `#[probe]` on the function itself, or `all` on its block"
    );
    assert_eq!(
        refused("**::limit, **::fmt, **::helper, **::skipped"),
        "`**::limit, **::fmt, **::helper, **::skipped` matches only functions that were left out: \
         `blocks::Stack::fmt` (filtered), `blocks::Stack::limit` (const), `blocks::net::helper` (filtered) and 1 more; \
         see `ProbeInfo::skipped`"
    );
    let Err(Error::Skipped { skipped, .. }) = select("**::Shape::area") else { panic!() };
    assert_eq!(skipped, [("blocks::Shape::area".to_owned(), "bodiless".to_owned())]);
    let Err(Error::NoMatch { probes, .. }) = select("nothing") else { panic!() };
    assert_eq!(probes, live);
}

fn groups_are_selected() {
    let paths = |selector: &str| -> Vec<String> {
        let mut paths: Vec<_> =
            select(selector).unwrap().probes().iter().map(|probe| probe.path()[8..].to_owned()).collect();
        paths.sort();
        paths.dedup();
        paths
    };
    assert_eq!(paths("group=net"), ["net::Server::port", "net::handle_get"]);
    assert_eq!(paths("group=net::*"), ["net::inner::deep"]);
    assert_eq!(
        paths("group=net::** kind=exit"),
        ["net::Server::port", "net::handle_get", "net::inner::deep"]
    );
    assert_eq!(paths("group=data::* kind=point"), ["full"]);
    assert_eq!(paths("group=net|data::stack, !kind=entry|exit"), ["full"]);
    let refused = |selector: &str| select(selector).unwrap_err().to_string();
    assert_eq!(
        refused("group=data::stakc"),
        "no probe matches `group=data::stakc`; did you mean `group=data::stack`?"
    );
}

fn counts() {
    let hits = select("**").unwrap().attach(Count::new()).unwrap();
    run();
    let counts = hits.counts();
    let count = |path: &str, kind| counts.hits(&format!("blocks::{path}"), kind).unwrap();
    for (path, hits) in [
        ("Stack::push", 7),
        ("Stack::reset", 1),
        ("Shape::twice", 2),
        ("ref-slice-u32::area", 2),
        ("tuple::area", 2),
        ("dyn-Shape::thrice", 1),
        ("net::handle_get", 1),
        ("net::inner::deep", 1),
        ("net::Server::port", 1),
    ] {
        assert_eq!((count(path, Kind::Entry), count(path, Kind::Exit)), (hits, hits), "{path}");
    }
    assert_eq!(count("full", Kind::Point), 3);
}
