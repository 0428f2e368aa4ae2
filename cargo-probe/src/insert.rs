//! A source's text with probes in its functions. Pure.
//!
//! Nothing that the compiler tells of a place may change, so nothing that is code moves:
//! ```text
//! fn handle(&self) {▏                    the probe, as the first statement: the line ends here
//!     …
//! use a::b;▏ // a comment                `#[probe]`, behind the token before: on an earlier line
//!
//! /// A comment.
//! async fn serve() { … }                 a future: only the attribute can wrap it
//! ```
//! A statement needs no procedural macro, and no attribute of others sees it.

use probe_expand::{FoundAllocator, FoundFunction};

/// The name of the runtime in the program that is built.
pub const RUNTIME: &str = "__latent_probes";

/// The last line of the root of a crate of the edition 2015, whose paths begin there.
pub const DECLARATION: &str = "\n#[allow(unused_extern_crates)] extern crate __latent_probes;\n";

/// The name of the allocator's crate in the program that is built.
pub const ALLOCATOR: &str = "__latent_probes_memory";

/// The same as [`DECLARATION`], of the allocator's crate.
pub const ALLOCATOR_DECLARATION: &str =
    "\n#[allow(unused_extern_crates)] extern crate __latent_probes_memory;\n";

/// The last line of the root of a program that has no allocator of its own, or maybe has one.
pub const SYSTEM_ALLOCATOR: &str = "\n#[global_allocator] static __LATENT_ALLOCATOR: \
    ::__latent_probes_memory::Probed<::std::alloc::System> = \
    ::__latent_probes_memory::Probed::new(::std::alloc::System);\n";

/// Returns the insertions that put probes ahead of an allocator: it is a static as before, and
/// another one behind it, under the same conditions, is the program's allocator.
pub fn wrap(text: &str, found: &FoundAllocator) -> [Insertion; 3] {
    let conditions = found.attributes.iter().map(|[begin, end]| &text[*begin..*end]);
    let is_kept = |it: &&str| it.starts_with("[cfg") || it.contains("global_allocator");
    let attributes: Vec<_> =
        conditions.filter(is_kept).map(|it| format!("#{} ", it.replace('\n', " "))).collect();
    let attributes = attributes.concat();
    let FoundAllocator { name, end, .. } = found;
    let ty = text[found.ty[0]..found.ty[1]].replace('\n', " ");
    let allocator = format!(
        " {attributes}#[allow(dead_code)] static __LATENT_ALLOCATOR_{end}: \
         ::{ALLOCATOR}::Probed<::{ALLOCATOR}::Shared<{ty}>> = \
         ::{ALLOCATOR}::Probed::new(::{ALLOCATOR}::Shared::new(&{name}));"
    );
    // It is the allocator under no condition.
    let [begin, marker_end] = found.marker;
    [
        Insertion { at: begin, text: "cfg_attr(any(), ".to_owned() },
        Insertion { at: marker_end, text: ")".to_owned() },
        Insertion { at: *end, text: allocator },
    ]
}

/// A text to insert.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Insertion {
    /// The byte of the text before which it is inserted.
    pub at: usize,
    /// The inserted text.
    pub text: String,
}

/// Returns the insertion that probes a function; `None` if it would move code of its line. An
/// attribute is for a function whose body others read, such as a macro that knows its statements.
pub fn probe(text: &str, lines: &Lines, function: &FoundFunction, by_attribute: bool) -> Option<Insertion> {
    let name = function.name.as_str();
    let [first, _] = function.body?;
    let is_free = |at: usize| {
        let begins = text[..at].rfind('\n').map_or(0, |it| it + 1);
        !text[begins..at].trim_start().starts_with("//") && is_end_of_line(&text[at..])
    };
    if !by_attribute && !function.is_future && is_free(first) {
        let (line, column) = lines.place(text, function.name_at);
        return Some(Insertion {
            at: first,
            text: format!(
                "::{RUNTIME}::__private::v1::entry_and_exit!((\"{name}\", \"\", {line}, {column}));"
            ),
        });
    }
    // Behind the function's own attributes: other macros expand first, and keep this one.
    let own = function.attributes.iter().rev().find(|[begin, _]| text[*begin..].starts_with('['));
    let at = own.map_or(function.previous_end, |[_, end]| *end);
    let moves_code = !text[at..first].contains('\n') && !is_end_of_line(&text[first..]);
    (!moves_code).then(|| Insertion {
        at,
        text: format!(" #[::{RUNTIME}::probe(name = \"{name}\", crate = ::{RUNTIME})] "),
    })
}

/// Returns whether the line has no more code.
fn is_end_of_line(rest: &str) -> bool {
    let line = rest.split('\n').next().unwrap_or_default().trim_start();
    rest.contains('\n') && (line.is_empty() || line.starts_with("//"))
}

/// The first bytes of a text's lines.
pub struct Lines(Vec<usize>);

impl Lines {
    /// Finds the lines of a text.
    pub fn of(text: &str) -> Self {
        Self([0].into_iter().chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect())
    }

    /// Returns the line of a byte, from 1, as `line!()` does.
    pub fn line(&self, at: usize) -> usize {
        self.0.partition_point(|begin| *begin <= at)
    }

    /// Returns the line and the column, both from 1, as `line!()` and `column!()` do.
    pub fn place(&self, text: &str, at: usize) -> (usize, usize) {
        let line = self.line(at);
        (line, text[self.0[line - 1]..at].chars().count() + 1)
    }
}

/// Inserts the texts.
pub fn insert(text: &str, mut insertions: Vec<Insertion>) -> String {
    insertions.sort_by_key(|insertion| insertion.at);
    let mut inserted =
        String::with_capacity(text.len() + insertions.iter().map(|it| it.text.len()).sum::<usize>());
    let mut from = 0;
    for insertion in insertions {
        inserted.push_str(&text[from..insertion.at]);
        inserted.push_str(&insertion.text);
        from = insertion.at;
    }
    inserted.push_str(&text[from..]);
    inserted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inserted(text: &str) -> String {
        let found = probe_expand::find(text).unwrap();
        let lines = Lines::of(text);
        insert(text, found.functions.iter().filter_map(|it| probe(text, &lines, it, false)).collect())
    }

    #[test]
    fn statements_where_the_line_ends() {
        let text = "impl A {\n    fn b(\n        &self,\n    ) -> u8 { // c\n        d()\n    }\n}\n";
        let statement = "::__latent_probes::__private::v1::entry_and_exit!((\"A::b\", \"\", 2, 8));";
        assert_eq!(inserted(text), text.replace("u8 {", &format!("u8 {{{statement}")));
        let text = "fn a() {\n    #![allow(x)]\n    b()\n}";
        let statement = "::__latent_probes::__private::v1::entry_and_exit!((\"a\", \"\", 1, 4));";
        assert_eq!(inserted(text), text.replace("(x)]", &format!("(x)]{statement}")));
    }

    #[test]
    fn attributes_on_an_earlier_line() {
        let attribute = |name: &str| {
            format!(" #[::__latent_probes::probe(name = \"{name}\", crate = ::__latent_probes)] ")
        };
        let text = "use a;// b\n/// c\nasync fn d() {\n    e()\n}\n#[tokio::main]\n/// c\nasync fn main() {\n    e()\n}\n";
        let expected = text.replace("use a;", &format!("use a;{}", attribute("d")));
        let expected = expected.replace("main]", &format!("main]{}", attribute("main")));
        assert_eq!(inserted(text), expected);
        // The body's code is on the line of its brace.
        let text = "use a;\nfn b() { if c { panic!() } }\n";
        assert_eq!(inserted(text), text.replace("a;", &format!("a;{}", attribute("b"))));
    }

    #[test]
    fn code_is_never_moved() {
        for text in [
            "fn a() { b(); c() }\n",
            "use a; fn b() { c(); d() }",
            "mod a { fn b() { c(); d() } }\n",
            "#[a] fn b() { c(); d() }\n",
            "macro_rules! a { () => {} } fn b() { c(); d() }",
        ] {
            assert_eq!(inserted(text), text);
        }
        // The signature of a future may move: it is no place that a program tells.
        assert!(inserted("async fn a() {\n    b()\n}").starts_with(" #[::__latent_probes::probe("));
        // A statement behind an inner comment would be part of it.
        assert!(
            inserted("fn a() {\n    //! b\n    c()\n}\n").ends_with(")] fn a() {\n    //! b\n    c()\n}\n")
        );
    }
}
