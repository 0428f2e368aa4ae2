//! Every semantic rule of the two macros, and the message for each.
//!
//! A message states the mistake, the reason, and the remedy; its span shows the place.

mod block;
mod captures;
mod fields;
mod filter;
#[cfg(feature = "find")]
mod leaf;
mod settings;

pub(crate) use block::block;
#[cfg(feature = "find")]
pub(crate) use block::{too_small, unsupported};
#[cfg(feature = "find")]
pub(crate) use leaf::is_leaf;
pub(crate) use settings::settings;

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use quote::ToTokens;
use syn::{LitStr, Type};

use crate::model::{Block, Errors, Field, Function, Item, Point, PointName, Settings};
use crate::parse;
use crate::replace::{self, Replaceable};
use fields::{MAX_FIELDS, too_many};

/// Captures and replacement of a function, from its settings and signature.
#[derive(Default)]
pub(crate) struct Prepared {
    pub(crate) captures: Captures,
    /// The parts of its replacement, if it may be replaced.
    pub(crate) replaceable: Option<Replaceable>,
}

/// Fields that a function's probes record, from its settings and its signature.
#[derive(Default)]
pub(crate) struct Captures {
    pub(crate) entry: Vec<Field>,
    pub(crate) exit: Option<ExitCaptures>,
}

/// The exit of a function whose result is recorded.
pub(crate) struct ExitCaptures {
    /// Name that the fields use for a reference to the result.
    pub(crate) result: Ident,
    /// Fields of the exit, after its outcome.
    pub(crate) fields: Vec<Field>,
    /// Type of the result, as far as the body can name it.
    pub(crate) ty: Type,
    /// Variables that the closure around the body takes by value, in this order.
    pub(crate) moves: Vec<Ident>,
    /// Whether the body may assign to an argument.
    pub(crate) is_assigned: bool,
}

/// A block with the decision about each function.
pub(crate) struct Plan {
    pub(crate) block: Block,
    /// One for each of the block's elements.
    pub(crate) parts: Vec<Part>,
}

pub(crate) enum Part {
    Function(Function, Box<Decision>),
    Block(Plan),
    Other(TokenStream),
}

/// The decision about a function in a block.
pub(crate) struct Decision {
    /// Complete settings, with name, group and path from the block.
    pub(crate) settings: Settings,
    /// The probes of the function, or the reason why it has none.
    pub(crate) verdict: Result<Prepared, &'static str>,
}

fn name_not_literal(example: &str) -> String {
    format!(
        "the name of a probe must be a string literal, since it is part of the compiled program; \
         write `{example}`"
    )
}

/// Checks a name that selectors can use: segments of letters, digits, `_`, `-`, `.`, joined by
/// `::`.
fn name(literal: &LitStr, errors: &mut Errors) {
    nameable("name", literal, errors);
}

/// Checks the name or the group of a probe.
fn nameable(what: &str, literal: &LitStr, errors: &mut Errors) {
    const ALLOWED: &str = "use letters, digits, `_`, `-`, `.`, and `::` between segments";
    let value = literal.value();
    let suffix = literal.suffix();
    if value.is_empty() {
        errors.at(literal, format!("the {what} of a probe can't be empty"));
    } else if !suffix.is_empty() {
        errors.at(literal, format!("the {what} of a probe takes no suffix; remove `{suffix}`"));
    } else if let Some(wrong) = value.split("::").flat_map(str::chars).find(|&c| !is_nameable(c)) {
        errors.at(
            literal,
            format!("the {what} of a probe can't contain {wrong:?}, which no selector could name; {ALLOWED}"),
        );
    } else if value.split("::").any(str::is_empty) {
        errors.at(literal, format!("the {what} {value:?} has an empty segment beside a `::`; {ALLOWED}"));
    }
}

fn is_nameable(c: char) -> bool {
    c.is_alphanumeric() || "_-.".contains(c)
}

/// Checks the item under `#[probe]`.
pub(crate) fn item(item: &Item, errors: &mut Errors) {
    match item {
        Item::Function(subject) => function(subject, errors),
        // The items inside are checked when the block is planned.
        Item::Block(_) => {}
        Item::Other { keyword, tokens } => {
            let what = keyword.as_ref().map(ToString::to_string);
            let hint = match what.as_deref() {
                Some("mod") => {
                    "the file of a module isn't seen from here: put it on the blocks and functions in there"
                }
                Some("impl" | "trait") => "put it on each function inside",
                Some("const" | "static") => "put it on the function that computes the value",
                Some("extern") => "put it on a Rust function that calls the foreign one",
                Some(_) => "put it on a function that uses it",
                None => "mark a point in the code with `probe!(\"name\")` instead",
            };
            let article = |word: &str| if word.starts_with(['e', 'i', 'u']) { "an" } else { "a" };
            let what =
                what.map_or("an expression".to_string(), |what| format!("{} `{what}`", article(&what)));
            let place = keyword.as_ref().map_or(tokens.clone(), ToTokens::to_token_stream);
            errors.at(
                place,
                format!(
                    "`#[probe]` supports functions, and `impl`, `trait` and `mod` blocks, not {what}; {hint}"
                ),
            );
        }
    }
}

/// Returns the captures and the replacement of a function, from its settings.
pub(crate) fn prepared(settings: &Settings, function: &Function, errors: &mut Errors) -> Prepared {
    let captures = captures::captures(settings, function, errors);
    fields::usdt_of_function(settings, &captures, errors);
    Prepared { captures, replaceable: replace::replaceable(settings, function, errors) }
}

/// Checks that the arguments make sense on this item.
pub(crate) fn fits(settings: &Settings, item: &Item, errors: &mut Errors) {
    match item {
        Item::Function(_) => fits_function(settings, errors),
        Item::Block(_) => fits_block(settings, errors),
        Item::Other { .. } => {}
    }
}

const SECOND: &str = "a second `#[probe]` on one item; join their arguments in one";

/// Checks that no other `#[probe]` follows.
pub(crate) fn alone(item: &Item, errors: &mut Errors) {
    let attributes = match item {
        Item::Function(function) => &function.attributes,
        Item::Block(block) => &block.attributes,
        Item::Other { .. } => return,
    };
    for own in attributes.iter().filter_map(parse::own) {
        errors.at(&own.word, SECOND);
    }
}

fn fits_function(settings: &Settings, errors: &mut Errors) {
    let filters = [&settings.only, &settings.except].into_iter().flatten().map(|filter| &filter.word);
    for word in filters.chain(&settings.all) {
        errors.at(
            word,
            format!("`{word}` chooses among the functions of an `impl`, `trait` or `mod`; this is one function: remove it"),
        );
    }
}

fn fits_block(settings: &Settings, errors: &mut Errors) {
    if let Some(name) = &settings.name {
        errors.at(
            name,
            "`name` names one probe, and the functions of a block have names of their own; put it on one of them, or use `group`",
        );
    }
    let args = settings.args.as_ref().map(|args| &args.key);
    for word in args.into_iter().chain(settings.ret.as_ref().map(|ret| &ret.key)) {
        errors.at(
            word,
            format!("`{word}` records what one function is given or returns; put it on `#[probe({word}…)]` of functions inside"),
        );
    }
    if let Some(replace) = &settings.replace {
        errors.at(
            &replace.tokens,
            "`replace` is for one function; put `#[probe(replace)]` on functions inside",
        );
    }
}

fn function(function: &Function, errors: &mut Errors) {
    for word in &function.qualifiers {
        if word == "const" {
            errors.at(
                word,
                "`#[probe]` doesn't support `const fn`: a probe is a machine instruction, which can't run at compile \
                 time; remove `const`, or probe a function that calls this one",
            );
        } else if word == "gen" {
            errors.at(
                word,
                "generators aren't supported: the body runs piece by piece, whenever it is resumed, so it has no one entry \
                 and exit; probe the ordinary functions that it calls",
            );
        }
    }
    for attribute in &function.attributes {
        if let Some(naked) = naked(attribute) {
            errors.at(
                naked,
                "`#[probe]` doesn't support naked functions: their body is the assembly alone, with no place for a \
                 probe; probe the function that calls this one",
            );
        }
    }
    if let Err(semicolon) = &function.body {
        errors.at(
            semicolon,
            format!(
                "`{}` has no body to probe; put `#[probe]` on an implementation of it, or on a function that calls it",
                function.name
            ),
        );
    }
}

/// Returns the word `naked` of `#[naked]` or `#[unsafe(naked)]`.
fn naked(attribute: &Group) -> Option<Ident> {
    let trees: Vec<TokenTree> = attribute.stream().into_iter().collect();
    match trees.as_slice() {
        [TokenTree::Ident(word)] if word == "naked" => Some(word.clone()),
        [TokenTree::Ident(word), TokenTree::Group(group)]
            if word == "unsafe" && group.delimiter() == Delimiter::Parenthesis =>
        {
            naked(group)
        }
        _ => None,
    }
}

/// Checks a `probe!(…)`.
pub(crate) fn point(point: &Point, errors: &mut Errors) {
    match &point.name {
        PointName::Literal(literal) => name(literal, errors),
        PointName::Missing => {
            errors.at_span(Span::call_site(), "a probe needs a name: write `probe!(\"name\")`");
        }
        PointName::Other(tokens) => errors.at(tokens, name_not_literal("probe!(\"name\", …)")),
    }
    if let (Some(_), Some(first)) = (&point.future, point.fields.first()) {
        let name = &first.name;
        errors.at(
            name,
            format!("a probe around a future has no fields of its own; put `probe!(\"…\", {name})` into the future"),
        );
    }
    fields::check(&point.fields, errors);
    too_many(&point.fields, MAX_FIELDS, "a probe", errors);
    fields::usdt_of_point(point, errors);
}

#[cfg(test)]
mod tests;
