//! The decision about each function in a block: probed, or left out for a reason, which is always
//! reported.
//!
//! The first rule that applies decides:
//! ```text
//! #[probe(skip)] on it, or on a block around it      asked
//! #[probe(…)] on it                                  probed, or the error that it would get alone
//! const, gen, naked, without a body                  const, gen, naked, bodiless
//! named by an `except`, not named by an `only`       filtered
//! named by an `only`, or under `all`                 probed
//! #[inline] or #[inline(always)]                     inline
//! one short expression                               small
//! anything else                                      probed
//! ```
//! One short expression is the body of getters, setters, constructors, conversions and delegates. A
//! site costs one NOP wherever the function's code lands, and stops the compiler from vectorising a
//! loop around it. That is negligible beside a function with a larger body, but multiplies the cost
//! of a function that reads a field (the bench `blocks`).

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use syn::LitStr;
use syn::ext::IdentExt;

use super::filter::BlockFilters;
use super::{Decision, Part, Plan, SECOND, fits_block, fits_function, function, naked, prepared, settings};
use crate::asynchronous::{deferred_block, early};
use crate::model::{Block, Element, Errors, Function, Inside, Own, Settings};
use crate::tokens::krate_at;
use crate::{args, parse};

/// Decides on each function in the block.
pub(crate) fn block(block: Block, settings: &Settings, errors: &mut Errors) -> Plan {
    let outside = Scope::default();
    plan(block, &outside, settings, errors)
}

/// The surroundings of a function.
#[derive(Default)]
struct Scope<'s> {
    krate: Option<TokenStream>,
    group: Option<LitStr>,
    doc: Option<LitStr>,
    prefix: Option<String>,
    all: bool,
    skip: bool,
    usdt: Option<Ident>,
    filters: Option<BlockFilters<'s>>,
    outer: Option<&'s Scope<'s>>,
}

impl<'s> Scope<'s> {
    /// Returns the scope of a block inside of `outer`. The block's own settings take precedence.
    fn of(outer: &'s Self, prefix: Option<String>, settings: &'s Settings) -> Self {
        Scope {
            krate: settings.krate.clone().or_else(|| outer.krate.clone()),
            group: settings.group.clone().or_else(|| outer.group.clone()),
            doc: settings.doc.clone().or_else(|| outer.doc.clone()),
            prefix,
            all: outer.all || settings.all.is_some(),
            skip: outer.skip || settings.skip.is_some(),
            usdt: settings.usdt.clone().or_else(|| outer.usdt.clone()),
            filters: BlockFilters::of(settings),
            outer: Some(outer),
        }
    }

    /// Returns the filters of this block and of those around it.
    fn layers(&self) -> impl Iterator<Item = &BlockFilters<'s>> {
        std::iter::successors(Some(self), |scope| scope.outer).filter_map(|scope| scope.filters.as_ref())
    }

    /// Completes a function's settings from its surroundings.
    fn complete(&self, own: Settings, function: &Function) -> Settings {
        let (name, span) = match &own.name {
            Some(name) => (name.value(), name.span()),
            None => (function.name.unraw().to_string(), function.name.span()),
        };
        Settings {
            name: Some(LitStr::new(&self.prefixed(&name), span)),
            krate: own.krate.or_else(|| self.krate.clone()),
            group: own.group.or_else(|| self.group.clone()),
            doc: own.doc.or_else(|| self.doc.clone()),
            usdt: own.usdt.or_else(|| self.usdt.clone()),
            ..own
        }
    }

    fn prefixed(&self, name: &str) -> String {
        self.prefix.as_ref().map_or_else(|| name.to_owned(), |prefix| format!("{prefix}::{name}"))
    }
}

fn plan(mut block: Block, outer: &Scope<'_>, settings: &Settings, errors: &mut Errors) -> Plan {
    let scope = Scope::of(outer, block.prefix.clone(), settings);
    let mut parts = Vec::new();
    for element in std::mem::take(&mut block.elements) {
        parts.push(match element {
            Element::Other(tokens) => Part::Other(tokens),
            Element::Function(own, function) => {
                check_hidden(&function.attributes, errors);
                let mut settings = own_settings(&own, errors);
                if let Some(replace) = settings.as_mut().and_then(|own| own.replace.as_mut()) {
                    replace.is_method |= block.inside == Inside::Methods;
                }
                let decision = decision(settings, &function, &scope, errors);
                Part::Function(function, Box::new(decision))
            }
            Element::Block(own, inner) => {
                check_hidden(&inner.attributes, errors);
                let settings = own_settings(&own, errors).unwrap_or_default();
                fits_block(&settings, errors);
                match early(&settings, &inner) {
                    None => Part::Block(plan(inner, &scope, &settings, errors)),
                    Some(early) => Part::Other(left_to_its_macro(&scope, settings, early, &inner, errors)),
                }
            }
        });
    }
    if let Some(filters) = &scope.filters {
        filters.check_use(errors);
    }
    Plan { block, parts }
}

/// Leaves a block with a macro on it to that macro, which must see the written code. The block gets
/// a `#[probe]` of its own behind the macro, with the settings of its surroundings.
fn left_to_its_macro(
    scope: &Scope<'_>,
    mut settings: Settings,
    early: &Group,
    block: &Block,
    errors: &mut Errors,
) -> TokenStream {
    if scope.layers().next().is_some() {
        errors.at(
            early.stream(),
            "`only` and `except` of the `mod` don't reach into a block with a macro on it; put the block into another `mod`",
        );
    }
    settings.krate = settings.krate.or_else(|| scope.krate.clone());
    settings.group = settings.group.or_else(|| scope.group.clone());
    settings.doc = settings.doc.or_else(|| scope.doc.clone());
    settings.usdt = settings.usdt.or_else(|| scope.usdt.clone());
    let word = |own: Option<Ident>, is_given: bool, word: &str| {
        own.or_else(|| is_given.then(|| Ident::new(word, Span::call_site())))
    };
    settings.all = word(settings.all, scope.all, "all");
    settings.skip = word(settings.skip, scope.skip, "skip");
    let krate = krate_at(settings.krate.as_ref(), block.body.span_open());
    deferred_block(&krate, settings.to_arguments(), block)
}

/// Returns the settings of an item's own `#[probe]`, if it has one.
fn own_settings(own: &[Own], errors: &mut Errors) -> Option<Settings> {
    let (first, more) = own.split_first()?;
    for own in more {
        errors.at(&own.word, SECOND);
    }
    Some(settings(&args::parse(first.args.clone()), errors))
}

fn decision(own: Option<Settings>, function: &Function, scope: &Scope<'_>, errors: &mut Errors) -> Decision {
    let is_passed = passes(function, scope);
    let is_skipped = own.as_ref().map_or(scope.skip, |own| own.skip.is_some());
    let reason = match &own {
        _ if is_skipped => Some("asked"),
        Some(own) => {
            fits_function(own, errors);
            self::function(function, errors);
            None
        }
        None => unsupported(function).or(match is_passed {
            Some(false) => Some("filtered"),
            Some(true) => None,
            None if scope.all => None,
            None => too_small(function),
        }),
    };
    let settings = scope.complete(own.unwrap_or_default(), function);
    let verdict = match reason {
        Some(reason) => Err(reason),
        None => Ok(prepared(&settings, function, errors)),
    };
    Decision { settings, verdict }
}

/// Returns the decision of the filters: `None` if no filter names the function.
fn passes(function: &Function, scope: &Scope<'_>) -> Option<bool> {
    let name = function.name.unraw().to_string();
    let whole = scope.prefixed(&name);
    // Every layer is asked, so that each records which of its globs were used.
    let answers: Vec<Option<bool>> = scope.layers().map(|layer| layer.passes(&name, &whole)).collect();
    if answers.contains(&Some(false)) { Some(false) } else { answers.contains(&Some(true)).then_some(true) }
}

/// Returns the reason why the function can't have a probe.
pub(crate) fn unsupported(function: &Function) -> Option<&'static str> {
    if function.body.is_err() {
        Some("bodiless")
    } else if function.attributes.iter().any(|attribute| naked(attribute).is_some()) {
        Some("naked")
    } else if function.is("const") {
        Some("const")
    } else if function.is("gen") {
        Some("gen")
    } else {
        None
    }
}

/// Returns the reason why the function is too small for a probe that was not asked for by name. An
/// `async` function is never too small: its text does not show the cost of polling it.
pub(crate) fn too_small(function: &Function) -> Option<&'static str> {
    if function.is("async") {
        return None;
    }
    if function.attributes.iter().any(is_inline) {
        return Some("inline");
    }
    function.body.as_ref().is_ok_and(|body| is_small(&body.stream())).then_some("small")
}

/// Returns whether this is `#[inline]`, `#[inline(always)]`, or one of them under a condition.
fn is_inline(attribute: &Group) -> bool {
    let trees: Vec<TokenTree> = attribute.stream().into_iter().collect();
    match trees.as_slice() {
        [TokenTree::Ident(word)] => word == "inline",
        [TokenTree::Ident(word), TokenTree::Group(list)] if word == "inline" => {
            list.stream().to_string() == "always"
        }
        _ => conditional(attribute).iter().any(is_inline),
    }
}

/// Refuses a `#[probe]` under a condition. It would appear only after the block's expansion, and
/// add a second probe.
fn check_hidden(attributes: &[Group], errors: &mut Errors) {
    for attribute in attributes {
        for own in conditional(attribute).iter().filter_map(parse::own) {
            errors.at(
                &own.word,
                "a `#[probe]` under `cfg_attr` isn't seen by the one on the block, which would put another probe here; \
                 move it to a function of its own under `#[cfg(…)]`, or use `only(…)` or `except(…)`",
            );
        }
    }
}

/// Returns the attributes that a `cfg_attr(condition, …)` may become.
fn conditional(attribute: &Group) -> Vec<Group> {
    let trees: Vec<TokenTree> = attribute.stream().into_iter().collect();
    let [TokenTree::Ident(word), TokenTree::Group(list)] = trees.as_slice() else { return Vec::new() };
    if word != "cfg_attr" {
        return Vec::new();
    }
    let inner: Vec<TokenTree> = list.stream().into_iter().collect();
    let parts = inner.split(|tree| matches!(tree, TokenTree::Punct(punct) if punct.as_char() == ','));
    parts.skip(1).map(|part| Group::new(Delimiter::Bracket, part.iter().cloned().collect())).collect()
}

/// Greatest number of tokens: `self.entries.get(index).map(|entry| &entry.value)` has 17. A bracket
/// and its partner count as one.
const MAX_TOKENS: usize = 20;

/// Words that a short expression doesn't have, since they branch, loop, leave or wait.
const WORDS: [&str; 10] =
    ["async", "await", "break", "continue", "for", "if", "loop", "match", "return", "while"];

/// Returns whether the contents of these braces are at most one short expression, with or without a
/// semicolon.
pub(super) fn is_small(body: &TokenStream) -> bool {
    let mut trees: Vec<TokenTree> = body.clone().into_iter().collect();
    if matches!(trees.last(), Some(TokenTree::Punct(punct)) if punct.as_char() == ';') {
        trees.pop();
    }
    let mut left = MAX_TOKENS;
    is_short(trees, &mut left)
}

fn is_short(trees: impl IntoIterator<Item = TokenTree>, left: &mut usize) -> bool {
    trees.into_iter().all(|tree| {
        if let TokenTree::Group(group) = &tree
            && group.delimiter() == Delimiter::None
        {
            return is_short(group.stream(), left);
        }
        if *left == 0 {
            return false;
        }
        *left -= 1;
        match tree {
            TokenTree::Group(group) => is_short(group.stream(), left),
            TokenTree::Ident(word) => WORDS.iter().all(|known| word != known),
            TokenTree::Punct(punct) => punct.as_char() != ';',
            TokenTree::Literal(_) => true,
        }
    })
}

/// The fate of each function in a block, and arguments in their places.
#[cfg(test)]
mod tests {
    use proc_macro2::TokenStream;
    use quote::quote;

    use crate::check::tests::{messages, one_line_with};
    use crate::check::{Part, Plan, block, fits, settings};
    use crate::model::{Errors, Item};
    use crate::{args, parse};

    /// Returns the fate of each function in a block, as `name` or `name reason`, and the errors.
    fn of_block(args: TokenStream, tokens: TokenStream) -> (Vec<String>, String) {
        fn shown(plan: &Plan, list: &mut Vec<String>) {
            for part in &plan.parts {
                match part {
                    Part::Function(_, fate) => {
                        let settings = &fate.settings;
                        let name = settings.name.as_ref().unwrap().value();
                        let group = settings
                            .group
                            .as_ref()
                            .map_or_else(String::new, |group| format!(" @{}", group.value()));
                        list.push(match fate.verdict {
                            Ok(_) => format!("{name}{group}"),
                            Err(reason) => format!("{name}{group} {reason}"),
                        });
                    }
                    Part::Block(plan) => shown(plan, list),
                    Part::Other(_) => {}
                }
            }
        }
        let mut errors = Errors::default();
        let settings = settings(&args::parse(args), &mut errors);
        let item = parse::item(tokens);
        fits(&settings, &item, &mut errors);
        let Item::Block(subject) = item else { panic!("not a block") };
        let plan = block(subject, &settings, &mut errors);
        let mut list = Vec::new();
        shown(&plan, &mut list);
        (list, messages(errors))
    }

    fn subject() -> TokenStream {
        quote! {
            mod m {
                fn handle(x: u8) { let y = x; f(y) }
                fn get_a(&self) -> u8 { self.a }
                #[inline] fn hinted() { f(); g() }
                #[inline(always)] fn always() { f(); g() }
                #[inline(never)] fn never() { f(); g() }
                #[cfg_attr(x, inline)] fn perhaps() { f(); g() }
                const fn constant() { f(); g() }
                #[unsafe(naked)] extern "C" fn bare() { naked_asm!("ret") }
                async fn later(&self) -> u8 { self.a }
                #[probe(skip)] fn skipped() { f(); g() }
                #[probe(name = "other", group = "own")] #[inline] fn renamed() { 1 }
                impl<T> a::Stack<T> {
                    fn push(&mut self) { f(); g() }
                    fn len(&self) -> usize { self.len }
                    #[probe] fn is_empty(&self) -> bool { self.len == 0 }
                }
                #[probe(skip)]
                trait Shape {
                    fn area(&self) -> u32;
                    fn twice(&self) -> u32 { f(); 2 * self.area() }
                    #[probe] fn thrice(&self) -> u32 { f(); 2 * self.area() }
                }
                #[probe(group = "deep", all)]
                mod inner { fn r#fn() { 1 } }
            }
        }
    }

    #[test]
    fn fates() {
        let (list, errors) = of_block(quote!(), subject());
        assert_eq!(errors, "");
        let expected = [
            "handle", "get_a small", "hinted inline", "always inline", "never", "perhaps inline",
            "constant const", "bare naked", "later", "skipped asked", "other @own", "Stack::push",
            "Stack::len small", "Stack::is_empty", "Shape::area asked", "Shape::twice asked",
            "Shape::thrice", "fn @deep",
        ];
        assert_eq!(list, expected);
    }

    #[test]
    fn filters_and_all() {
        let (list, errors) = of_block(quote!(all, except("Stack::p*", "handle"), group = "net"), subject());
        assert_eq!(errors, "");
        let skipped: Vec<_> = list.iter().filter(|line| line.split(' ').count() > 2).collect();
        assert_eq!(
            skipped,
            [
                "handle @net filtered", "constant @net const", "bare @net naked", "skipped @net asked",
                "Stack::push @net filtered", "Shape::area @net asked", "Shape::twice @net asked",
            ]
        );
        let (list, errors) = of_block(quote!(only("get_*", "Stack::len", "hinted")), subject());
        assert_eq!(errors, "");
        let probed: Vec<_> = list.iter().filter(|line| !line.contains(' ')).collect();
        assert_eq!(probed, ["get_a", "hinted", "Stack::len", "Stack::is_empty", "Shape::thrice"]);
        assert_eq!(list.last().unwrap(), "fn @deep filtered");
        one_line_with(
            &of_block(quote!(except("gte_*")), subject()).1,
            "`except(\"gte_*\")` names no function of this block; there are `handle`, `get_a`, `hinted` and 15 more",
        );
        one_line_with(&of_block(quote!(only("x")), quote!(impl S {})).1, "of this block, which has none");
    }

    #[test]
    fn arguments_in_their_places() {
        one_line_with(&of_block(quote!(name = "x"), quote!(impl S {})).1, "`name` names one probe");
        let inside = |own: TokenStream| of_block(quote!(), quote!(mod m { #own fn f() {} })).1;
        one_line_with(&inside(quote!(#[probe(all)])), "this is one function");
        one_line_with(&inside(quote!(#[probe(only("x"))])), "this is one function");
        one_line_with(&inside(quote!(#[probe(nome = "x")])), "unknown argument `nome`");
        one_line_with(&inside(quote!(#[probe] #[a::probe(skip)])), "a second `#[probe]`");
        one_line_with(&inside(quote!(#[cfg_attr(test, inline, probe(skip))])), "under `cfg_attr`");
        one_line_with(&inside(quote!(#[probe] const)), "doesn't support `const fn`");
        one_line_with(&inside(quote!(#[probe] gen)), "generators aren't supported");
    }
}
