//! The functions of a source file: their names, their places, and why one can't have a probe.
//!
//! A file is scanned as the contents of a block with `#[probe]` are, so names and reasons are those
//! that the attribute would give. Functions inside bodies are found, too, and those among the
//! arguments of a macro that stands in the place of an item, such as `cfg_if! { … }`. The arguments
//! of other macros, and the rules of `macro_rules!`, are not functions yet.

use std::str::FromStr;

use proc_macro2::{Delimiter, Group, LexError, LineColumn, Span, TokenStream, TokenTree, extra};

use syn::punctuated::Punctuated;

use crate::asynchronous::asynchronous;
use crate::check::{is_leaf, too_small, unsupported};
use crate::model::{Block, Element, Function, Inside};
use crate::parse::{Beginning, beginning, element, is_punct, item_len, split_attributes};
use crate::tokens::split_inner_attributes;

/// What [`find`] finds in a file.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Found {
    /// The functions, in the order of their names in the text.
    pub functions: Vec<FoundFunction>,
    /// Modules in files of their own: `mod name;`.
    pub modules: Vec<FoundModule>,
    /// Files whose items stand here: `include!("path");`.
    pub includes: Vec<FoundInclude>,
    /// Global allocators. Several may stand under `cfg`.
    pub allocators: Vec<FoundAllocator>,
}

/// A function of a file. Places are bytes of the text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundFunction {
    /// The modules around it in this file.
    pub modules: Vec<String>,
    /// The name of its probe within the module: `handle`, `Server::accept`.
    pub name: String,
    /// The place of its name.
    pub name_at: usize,
    /// Where its visibility, its qualifiers or the word `fn` stand, behind all attributes.
    pub begin: usize,
    /// Where its attributes stand, without their `#`, and its comments of documentation.
    pub attributes: Vec<[usize; 2]>,
    /// The end of the token before the whole function; 0 if there is none.
    pub previous_end: usize,
    /// Where its first statement may stand, behind the brace and inner attributes, and where the
    /// closing brace stands; `None` without a body.
    pub body: Option<[usize; 2]>,
    /// Whether its probes belong on the future that it returns.
    pub is_future: bool,
    /// Why it can't have a probe: `const`, `gen`, `naked` or `bodiless`; `own` if it has a
    /// `#[probe]`, itself or on a block around it; `future` for one whose future can't be wrapped.
    pub refusal: Option<&'static str>,
    /// Why it is too small for a probe that nobody asked for: `inline` or `small`, as for a block's
    /// `#[probe]`, or `leaf` if it has no loop, and no call but in operands and conditions.
    pub too_small: Option<&'static str>,
}

/// A module in a file of its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundModule {
    /// The modules around it in this text, each with the files that its `#[path]` names.
    pub outer: Vec<(String, Vec<String>)>,
    /// Its name.
    pub name: String,
    /// The files that its `#[path]` names: none without one, several under `cfg_attr`.
    pub paths: Vec<String>,
}

/// A file whose items are included.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundInclude {
    /// The modules around it in this text.
    pub modules: Vec<String>,
    /// The file, as the text names it.
    pub path: String,
    /// For `include!(concat!(env!("CARGO_MANIFEST_DIR"), "path"))`, the place of `env`.
    pub in_package: Option<usize>,
}

/// A global allocator of a file. Places are bytes of the text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundAllocator {
    /// Where its attributes stand, without their `#`, and its comments of documentation.
    pub attributes: Vec<[usize; 2]>,
    /// The place of the word `global_allocator` in one of them.
    pub marker: [usize; 2],
    /// Its name.
    pub name: String,
    /// The place of its type.
    pub ty: [usize; 2],
    /// The end of its semicolon.
    pub end: usize,
}

/// Finds the functions and modules of a file.
///
/// # Errors
/// The text is not made of Rust's tokens.
pub fn find(text: &str) -> Result<Found, LexError> {
    let skipped = skipped(text);
    let tokens = TokenStream::from_str(&text[skipped..]).inspect_err(|_| forget());
    let mut walk = Walk::of(text, skipped);
    let (inner, items) = split_inner_attributes(tokens?);
    let begin = inner.into_iter().last().map_or(skipped, |tree| walk.end(tree.span()));
    walk.scan(items, begin, true);
    forget();
    let mut found = walk.found;
    found.functions.sort_by_key(|function| function.name_at);
    Ok(found)
}

/// Frees the memory of the spans: all that are needed are numbers by now.
fn forget() {
    extra::invalidate_current_thread_spans();
}

/// Returns the bytes that are no tokens at the beginning: a byte order mark, and a first line for
/// the shell.
fn skipped(text: &str) -> usize {
    let mark = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    let rest = &text[mark..];
    let is_for_shell = rest.strip_prefix("#!").is_some_and(|rest| !rest.trim_start().starts_with('['));
    mark + if is_for_shell { rest.find('\n').unwrap_or(rest.len()) } else { 0 }
}

struct Walk<'a> {
    found: Found,
    /// The text, from its first token.
    text: &'a str,
    skipped: usize,
    /// The first bytes of its lines.
    lines: Vec<usize>,
    /// The modules around this place, each with the files of its `#[path]`.
    modules: Vec<(String, Vec<String>)>,
    /// The type or trait around this place.
    prefix: Option<String>,
    /// Whether a block around this place has a `#[probe]`.
    is_owned: bool,
}

impl<'a> Walk<'a> {
    fn of(text: &'a str, skipped: usize) -> Self {
        let text = &text[skipped..];
        let lines = [0].into_iter().chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Self {
            found: Found::default(),
            text,
            skipped,
            lines,
            modules: Vec::new(),
            prefix: None,
            is_owned: false,
        }
    }

    fn begin(&self, span: Span) -> usize {
        self.byte(span.start())
    }

    fn end(&self, span: Span) -> usize {
        self.byte(span.end())
    }

    /// Returns the byte of a place. [`Span::byte_range`] takes several times as long.
    fn byte(&self, place: LineColumn) -> usize {
        let line = self.lines[place.line - 1];
        let columns = self.text[line..].chars().take(place.column);
        self.skipped + line + columns.map(char::len_utf8).sum::<usize>()
    }

    /// Looks for items where one may begin: at the start, behind a semicolon, behind braces.
    /// `previous_end` is the end of the token before. Among statements, the arguments of a macro
    /// may be anything.
    fn scan(&mut self, tokens: TokenStream, mut previous_end: usize, are_items: bool) {
        let trees: Vec<TokenTree> = tokens.into_iter().collect();
        let (mut at, mut may_begin) = (0, true);
        while let Some(tree) = trees.get(at) {
            let begins = if may_begin { beginning(&trees[at..]) } else { None };
            let len = if begins.is_some() { item_len(&trees[at..]) } else { 1 };
            let item = &trees[at..at + len];
            let is_item = begins.is_some();
            match begins {
                Some(Beginning::FunctionOrBlock) => self.element(element(item), previous_end),
                Some(Beginning::ModuleInFile(name)) => self.module_in_file(item, name),
                None => {
                    if let TokenTree::Group(group) = tree
                        && !is_no_code(&trees[..at])
                        && (are_items || !is_macro(&trees[..at]))
                    {
                        if are_items && is_include(&trees[..at]) {
                            self.include(group);
                        }
                        self.scan(group.stream(), self.end(group.span_open()), are_items);
                    }
                }
            }
            if let TokenTree::Ident(word) = tree
                && word == "static"
                && let Some(allocator) = self.allocator(&trees, at)
            {
                self.found.allocators.push(allocator);
            }
            let is_braces = |group: &Group| group.delimiter() == Delimiter::Brace;
            may_begin =
                is_item || is_punct(tree, ';') || matches!(tree, TokenTree::Group(group) if is_braces(group));
            at += len;
            previous_end = item.last().map_or(previous_end, |last| self.end(last.span()));
        }
    }

    /// Reads the static at this place, if it is a global allocator: `static NAME: TYPE = …;`.
    fn allocator(&self, trees: &[TokenTree], at: usize) -> Option<FoundAllocator> {
        let mut first = match &trees[..at] {
            [.., TokenTree::Ident(word)] if word == "pub" => at - 1,
            [.., TokenTree::Ident(word), TokenTree::Group(_)] if word == "pub" => at - 2,
            _ => at,
        };
        let (mut attributes, mut marker) = (Vec::new(), None);
        while is_attribute(&trees[..first])
            && let [.., _, TokenTree::Group(group)] = &trees[..first]
        {
            attributes.push([self.begin(group.span()), self.end(group.span())]);
            marker = marker.or_else(|| word_in(group.stream(), "global_allocator"));
            first -= 2;
        }
        attributes.reverse();
        let [TokenTree::Ident(name), colon, rest @ ..] = &trees[at + 1..] else { return None };
        let is_end = |tree: &TokenTree| is_punct(tree, ';');
        let (equals, end) = (rest.iter().position(|tree| is_punct(tree, '=')), rest.iter().position(is_end));
        let (ty, end) = (&rest[..equals?], rest.get(end?)?);
        let marker = marker.filter(|_| is_punct(colon, ':'))?;
        Some(FoundAllocator {
            attributes,
            marker: [self.begin(marker), self.end(marker)],
            name: name.to_string(),
            ty: [self.begin(ty.first()?.span()), self.end(ty.last()?.span())],
            end: self.end(end.span()),
        })
    }

    fn element(&mut self, element: Element, previous_end: usize) {
        match element {
            Element::Function(own, function) => self.function(&function, previous_end, !own.is_empty()),
            Element::Block(own, block) => self.block(&block, !own.is_empty()),
            Element::Other(_) => {}
        }
    }

    fn block(&mut self, block: &Block, is_own: bool) {
        let was_owned = self.is_owned;
        self.is_owned |= is_own;
        let outer = self.prefix.take();
        if block.inside == Inside::Module {
            self.modules.push((module_name(&block.head), paths(&block.attributes)));
        } else {
            self.prefix.clone_from(&block.prefix);
        }
        let items = split_inner_attributes(block.body.stream()).1;
        self.scan(items, self.end(block.body.span_open()), true);
        if block.inside == Inside::Module {
            self.modules.pop();
        }
        self.prefix = outer;
        self.is_owned = was_owned;
    }

    fn function(&mut self, function: &Function, previous_end: usize, is_own: bool) {
        let name = unraw(&function.name.to_string());
        let head: Vec<TokenTree> = function.head.clone().into_iter().collect();
        let (_, signature) = split_attributes(&head);
        let future = asynchronous(function);
        let refusal = match () {
            () if is_own || self.is_owned => Some("own"),
            () if future.is_err() => Some("future"),
            () => unsupported(function),
        };
        let body = function.body.as_ref().ok().map(|body| {
            let (inner, statements) = split_inner_attributes(body.stream());
            let begin = inner.into_iter().last().map_or(body.span_open(), |tree| tree.span());
            (body, self.end(begin), statements)
        });
        self.found.functions.push(FoundFunction {
            modules: self.module_names(),
            name: self.prefix.as_ref().map_or_else(|| name.clone(), |prefix| format!("{prefix}::{name}")),
            name_at: self.begin(function.name.span()),
            begin: signature.first().map_or(0, |first| self.begin(first.span())),
            attributes: function
                .attributes
                .iter()
                .map(|group| [self.begin(group.span()), self.end(group.span())])
                .collect(),
            previous_end,
            body: body.as_ref().map(|(body, begin, _)| [*begin, self.begin(body.span_close())]),
            is_future: matches!(future, Ok(Some(_))),
            refusal,
            too_small: too_small(function).or_else(|| is_leaf(function).then_some("leaf")),
        });
        if let Some((_, begin, statements)) = body {
            let outer = self.prefix.take();
            self.scan(statements, begin, false);
            self.prefix = outer;
        }
    }

    fn module_names(&self) -> Vec<String> {
        self.modules.iter().map(|(name, _)| name.clone()).collect()
    }

    /// Takes the argument of an `include!`. Files that only a macro's expansion names stay unknown.
    fn include(&mut self, arguments: &Group) {
        let modules = self.module_names();
        if let Ok(path) = syn::parse2::<syn::LitStr>(arguments.stream()) {
            self.found.includes.push(FoundInclude { modules, path: path.value(), in_package: None });
        } else if let Some((path, span)) = in_package(arguments.stream()) {
            let in_package = Some(self.begin(span));
            self.found.includes.push(FoundInclude { modules, path, in_package });
        }
    }

    fn module_in_file(&mut self, item: &[TokenTree], name: String) {
        let (attributes, _) = split_attributes(item);
        self.found.modules.push(FoundModule { outer: self.modules.clone(), name, paths: paths(&attributes) });
    }
}

/// Returns whether these end in an attribute.
fn is_attribute(before: &[TokenTree]) -> bool {
    matches!(before, [.., hash, TokenTree::Group(group)]
        if is_punct(hash, '#') && group.delimiter() == Delimiter::Bracket)
}

/// Returns where a word stands, within groups, too.
fn word_in(tokens: TokenStream, wanted: &str) -> Option<Span> {
    tokens.into_iter().find_map(|tree| match tree {
        TokenTree::Ident(word) if word == wanted => Some(word.span()),
        TokenTree::Group(group) => word_in(group.stream(), wanted),
        _ => None,
    })
}

/// Returns whether the next group is the arguments of a macro.
fn is_macro(before: &[TokenTree]) -> bool {
    match before {
        [.., bang] if is_punct(bang, '!') => true,
        [.., bang, TokenTree::Ident(_)] => is_punct(bang, '!'),
        _ => false,
    }
}

/// Returns whether the next group is the arguments of `include!`.
fn is_include(before: &[TokenTree]) -> bool {
    matches!(before, [.., TokenTree::Ident(word), bang] if word == "include" && is_punct(bang, '!'))
}

/// Reads `concat!(env!("CARGO_MANIFEST_DIR"), "path", …)`: the path, and the place of `env`.
fn in_package(arguments: TokenStream) -> Option<(String, Span)> {
    let call = syn::parse2::<syn::Macro>(arguments).ok().filter(|it| it.path.is_ident("concat"))?;
    let parts = call.parse_body_with(Punctuated::<syn::Expr, syn::Token![,]>::parse_terminated).ok()?;
    let mut parts = parts.iter();
    let Some(syn::Expr::Macro(variable)) = parts.next() else { return None };
    let name = variable.mac.parse_body::<syn::LitStr>().ok()?.value();
    if !variable.mac.path.is_ident("env") || name != "CARGO_MANIFEST_DIR" {
        return None;
    }
    let path = parts.map(|part| match part {
        syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.value()),
        _ => None,
    });
    Some((path.collect::<Option<String>>()?, variable.mac.path.segments[0].ident.span()))
}

/// Returns whether the next group is the rules of a macro, or declares foreign functions.
fn is_no_code(before: &[TokenTree]) -> bool {
    let is_word = |tree: &TokenTree, wanted| matches!(tree, TokenTree::Ident(word) if word == wanted);
    match before {
        [.., rules, bang, TokenTree::Ident(_)] if is_punct(bang, '!') => is_word(rules, "macro_rules"),
        // `macro name { … }` and `macro name($a:expr) { … }`.
        [.., word, TokenTree::Ident(_)] | [.., word, TokenTree::Ident(_), TokenTree::Group(_)] => {
            is_word(word, "macro")
        }
        [.., word, TokenTree::Literal(_)] | [.., word] => is_word(word, "extern"),
        [] => false,
    }
}

/// Returns the name of a module or a crate as `module_path!` writes it.
///
/// A keyword of the edition has its `r#`.
#[must_use]
pub fn in_module_path(name: &str, edition: &str) -> String {
    let is_keyword = match name {
        "async" | "await" | "dyn" | "try" => edition != "2015",
        "gen" => !["2015", "2018", "2021"].contains(&edition),
        _ => syn::parse_str::<syn::Ident>(name).is_err(),
    };
    if is_keyword { format!("r#{name}") } else { name.to_owned() }
}

fn unraw(name: &str) -> String {
    name.strip_prefix("r#").unwrap_or(name).to_owned()
}

/// Returns the name in the head of a `mod`.
fn module_name(head: &TokenStream) -> String {
    let mut trees = head.clone().into_iter().skip_while(|tree| tree.to_string() != "mod").skip(1);
    trees.next().map_or_else(String::new, |name| unraw(&name.to_string()))
}

/// Returns the files of `#[path = "…"]`, and of those under `cfg_attr`.
fn paths(attributes: &[Group]) -> Vec<String> {
    let mut found = Vec::new();
    for attribute in attributes {
        let trees: Vec<TokenTree> = attribute.stream().into_iter().collect();
        for window in trees.windows(3) {
            if let [TokenTree::Ident(word), equals, TokenTree::Literal(file)] = window
                && word == "path"
                && is_punct(equals, '=')
                && let Ok(file) = syn::parse_str::<syn::LitStr>(&file.to_string())
            {
                found.push(file.value());
            }
        }
        found.extend(
            trees
                .iter()
                .filter_map(|tree| match tree {
                    TokenTree::Group(group) => Some(paths(std::slice::from_ref(group))),
                    _ => None,
                })
                .flatten(),
        );
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each function: its name, and the reasons against a probe.
    fn shown(text: &str) -> Vec<String> {
        let found = find(text).unwrap();
        let show = |it: &FoundFunction| {
            let mut line = it.modules.iter().chain([&it.name]).cloned().collect::<Vec<_>>().join("::");
            let reasons = [it.refusal, it.too_small, it.is_future.then_some("future")];
            for reason in reasons.into_iter().flatten() {
                line = format!("{line} {reason}");
            }
            line
        };
        found.functions.iter().map(show).collect()
    }

    #[test]
    fn names_and_reasons_are_those_of_a_block() {
        let text = r#"
            fn free() { f(); g() }
            pub(crate) async unsafe fn later() { f() }
            const fn constant() { f(); g() }
            fn sign(n: i8) -> i8 { if n.is_negative() { -1 } else { 1 } }
            #[unsafe(naked)] extern "C" fn bare() { naked_asm!("ret") }
            extern "C" { fn foreign(); }
            type F = fn(u8) -> u8;
            impl<T> a::Stack<T> where T: Fn(u8) -> u8 {
                pub fn len(&self) -> usize { self.len }
                #[inline] fn hinted() { f(); g() }
                fn r#in(&self) -> impl Future<Output = u8> { async { 1 } }
            }
            #[probe] impl S { fn has_one() { f(); g() } }
            #[probe_runtime::probe(ret)] fn has_one_too() { f(); g() }
            mod inner { trait Shape { fn area(&self) -> u32; fn twice(&self) -> u32 { f(); 2 } } }
        "#;
        assert_eq!(
            shown(text),
            [
                "free", "later future", "constant const", "sign leaf", "bare naked small",
                "Stack::len small", "Stack::hinted inline", "Stack::in future", "S::has_one own",
                "has_one_too own", "inner::Shape::area bodiless", "inner::Shape::twice",
            ]
        );
    }

    #[test]
    fn functions_in_bodies_and_macros_of_items() {
        let text = r"
            fn outer() {
                let a = x < y;
                fn inside() { f(); g() }
                call(|| { impl Visit for S { fn visit(&self) { f(); g() } } });
                let tokens = quote! { fn quoted() { f(); g() } };
                match a { true => { fn arm() { f(); g() } } }
            }
            cfg_if! { if #[cfg(unix)] { mod unix; pub fn one() { f(); g() } } else { mod m { fn two() { f(); g() } } } }
            macro_rules! make { ($name:ident) => { fn $name() { f(); g() } fn rule() { f(); g() } } }
            const _: () = { impl A for B { fn c() { f(); g() } } };
            macro new($a:expr) { fn newer() {} }
            macro newest { () => { fn newest() {} } }
        ";
        assert_eq!(shown(text), ["outer", "inside", "S::visit", "arm", "one", "m::two", "B::c"]);
        let modules = find(text).unwrap().modules;
        assert_eq!(modules.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(), ["unix"]);
    }

    #[test]
    fn global_allocators_are_found_with_their_conditions() {
        let text = "static OTHER: u8 = 1; #[cfg(a)]\n#[global_allocator] pub(crate) static ONE: A<B> = A::new();\n\
            mod m { /// Doc.\n #[cfg_attr(b, global_allocator)] static TWO: C = C { d: 1 }; }\n\
            fn f() { #[global_allocator] static mut THREE: D = D; }";
        let shown = |it: FoundAllocator| {
            let at = |[begin, end]: [usize; 2]| text[begin..end].to_owned();
            let attributes: Vec<_> = it.attributes.iter().map(|place| at(*place)).collect();
            assert_eq!((at(it.marker).as_str(), &text[it.end - 1..it.end]), ("global_allocator", ";"));
            format!("{} {} {}", it.name, at(it.ty), attributes.join(" "))
        };
        let found: Vec<_> = find(text).unwrap().allocators.into_iter().map(shown).collect();
        let expected =
            ["ONE A<B> [cfg(a)] [global_allocator]", "TWO C /// Doc. [cfg_attr(b, global_allocator)]"];
        assert_eq!(found, expected);
    }

    #[test]
    fn places_are_bytes_of_the_text() {
        let text = "\u{feff}#!/usr/bin/env run\n//! ä\n#![a]\nuse ä;\n/// Doc.\n#[b] // ü\npub fn ö() {\n    #![c] g()\n}";
        let found = find(text).unwrap();
        let function = &found.functions[0];
        assert!(text[..function.previous_end].ends_with("use ä;"));
        assert!(text[function.begin..].starts_with("pub fn"));
        assert!(text[function.name_at..].starts_with("ö()"));
        let attributes: Vec<_> = function.attributes.iter().map(|[begin, end]| &text[*begin..*end]).collect();
        assert_eq!(attributes, ["/// Doc.", "[b]"]);
        let [first, last] = function.body.unwrap();
        assert_eq!(&text[first - 5..last], "#![c] g()\n");
    }

    #[test]
    fn modules_in_files() {
        let text = r#"
            mod plain;
            #[path = "other.rs"] pub mod named;
            mod outer { #[cfg_attr(unix, path = "unix.rs")] #[cfg_attr(windows, path = "windows.rs")] mod sys; }
            #[path = "folder"] mod here { mod r#in; }
        "#;
        let shown: Vec<_> =
            find(text).unwrap().modules.into_iter().map(|it| (it.outer, it.name, it.paths)).collect();
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(
            shown,
            [
                (vec![], "plain".to_owned(), vec![]),
                (vec![], "named".to_owned(), names(&["other.rs"])),
                (vec![("outer".to_owned(), vec![])], "sys".to_owned(), names(&["unix.rs", "windows.rs"])),
                (vec![("here".to_owned(), names(&["folder"]))], "in".to_owned(), vec![]),
            ]
        );
    }

    #[test]
    fn included_files() {
        let text = r#"
            include!("a.rs");
            mod m { std::include! { r"b.rs" } include!(concat!(env!("OUT_DIR"), "/c.rs")); }
            const D: &str = include_str!("d");
            fn e() { let e = include!("e.rs"); f() }
            include!(concat!(env!("CARGO_MANIFEST_DIR"), "/f", "/g.rs",));
        "#;
        let shown: Vec<_> = find(text)
            .unwrap()
            .includes
            .into_iter()
            .map(|it| (it.modules.concat(), it.path, it.in_package.map(|at| &text[at..at + 5])))
            .collect();
        let shown: Vec<_> = shown.iter().map(|(a, b, c)| (a.as_str(), b.as_str(), *c)).collect();
        assert_eq!(shown, [("", "a.rs", None), ("m", "b.rs", None), ("", "/f/g.rs", Some("env!("))]);
    }

    #[test]
    fn keywords_are_raw_in_paths() {
        for (name, edition, expected) in [
            ("plain", "2024", "plain"),
            ("type", "2015", "r#type"),
            ("try", "2015", "try"),
            ("try", "2018", "r#try"),
            ("gen", "2021", "gen"),
            ("gen", "2024", "r#gen"),
            ("union", "2024", "union"),
        ] {
            assert_eq!(in_module_path(name, edition), expected, "{edition}");
        }
    }

    #[test]
    fn what_is_no_rust_is_an_error() {
        assert!(find("fn f() { \"").is_err());
        assert!(find("}").is_err());
        assert_eq!(find("").unwrap(), Found::default());
    }
}
