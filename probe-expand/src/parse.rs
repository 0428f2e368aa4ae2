//! Tokens ▶ model.
//!
//! A function is scanned, not parsed. rustc has already parsed it, and syntax that a future Rust
//! adds to signatures and bodies passes through unchanged. rustc itself reports a syntax error in a
//! body, at its place.

use proc_macro2::{Delimiter, Group, Ident, TokenStream, TokenTree};
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::{Expr, ExprAsync, ExprLit, Lit, Token};

use crate::model::{Errors, Field, Function, Item, Point, PointName, Style};

mod block;

pub(crate) use block::own;
#[cfg(feature = "find")]
pub(crate) use block::{Beginning, beginning, element, item_len};

const QUALIFIERS: [&str; 8] = ["async", "auto", "const", "default", "extern", "gen", "safe", "unsafe"];
const ITEMS: [&str; 11] =
    ["enum", "impl", "let", "macro_rules", "mod", "static", "struct", "trait", "type", "union", "use"];

/// Parses the item under `#[probe]`.
pub(crate) fn item(tokens: TokenStream) -> Item {
    let mut trees: Vec<TokenTree> = tokens.clone().into_iter().collect();
    // `#[probe] $item` in a `macro_rules!`: the item comes in a group without delimiters.
    while let [TokenTree::Group(group)] = trees.as_slice()
        && group.delimiter() == Delimiter::None
    {
        trees = group.stream().into_iter().collect();
    }
    let mut flat = Vec::new();
    flatten(trees.iter().cloned(), &mut flat);
    let (attributes, rest) = split_attributes(&flat);
    let rest = split_visibility(rest);
    let (qualifiers, rest) = split_qualifiers(rest);
    if let [TokenTree::Ident(keyword), after @ ..] = rest
        && ["impl", "trait", "mod"].iter().any(|block| keyword == block)
        && let Some(last) = trees.last()
        && let Ok(body) = braces(last.clone())
    {
        trees.pop();
        let head = trees.into_iter().collect();
        // The braces are not part of a name.
        let after = &after[..after.len() - 1];
        return Item::Block(block::block(attributes, keyword, head, after, body));
    }
    if let [TokenTree::Ident(keyword), TokenTree::Ident(name), ..] = rest
        && keyword == "fn"
        && let Some(last) = trees.pop()
    {
        let name = name.clone();
        return Item::Function(Function {
            attributes,
            qualifiers,
            name,
            head: trees.into_iter().collect(),
            body: braces(last),
        });
    }
    let keyword = match rest {
        [TokenTree::Ident(keyword), ..] if ITEMS.iter().any(|item| keyword == item) => Some(keyword.clone()),
        _ => qualifiers.last().cloned(),
    };
    Item::Other { keyword, tokens }
}

/// Appends `trees` to `flat`, with the contents of groups without delimiters in place of the
/// groups.
fn flatten(trees: impl IntoIterator<Item = TokenTree>, flat: &mut Vec<TokenTree>) {
    for tree in trees {
        match tree {
            TokenTree::Group(group) if group.delimiter() == Delimiter::None => flatten(group.stream(), flat),
            tree => flat.push(tree),
        }
    }
}

/// Returns the `{ … }` of `last`, also if it is a `$body:block`.
fn braces(last: TokenTree) -> Result<Group, TokenTree> {
    let mut flat = Vec::new();
    flatten([last.clone()], &mut flat);
    match flat.as_slice() {
        [TokenTree::Group(group)] if group.delimiter() == Delimiter::Brace => Ok(group.clone()),
        _ => Err(last),
    }
}

pub(crate) fn split_attributes(mut trees: &[TokenTree]) -> (Vec<Group>, &[TokenTree]) {
    let mut attributes = Vec::new();
    while let [TokenTree::Punct(hash), TokenTree::Group(group), rest @ ..] = trees
        && hash.as_char() == '#'
    {
        attributes.push(group.clone());
        trees = rest;
    }
    (attributes, trees)
}

fn split_visibility(trees: &[TokenTree]) -> &[TokenTree] {
    match trees {
        [TokenTree::Ident(word), TokenTree::Group(_), rest @ ..] if word == "pub" => rest,
        [TokenTree::Ident(word), rest @ ..] if word == "pub" => rest,
        _ => trees,
    }
}

/// Splits off the words before `fn`; the string of `extern "C"` is skipped.
fn split_qualifiers(mut trees: &[TokenTree]) -> (Vec<Ident>, &[TokenTree]) {
    let mut qualifiers = Vec::new();
    loop {
        match trees {
            [TokenTree::Ident(word), rest @ ..] if QUALIFIERS.iter().any(|known| word == known) => {
                qualifiers.push(word.clone());
                trees = rest;
            }
            [TokenTree::Literal(_), rest @ ..] if qualifiers.last().is_some_and(|word| word == "extern") => {
                trees = rest;
            }
            _ => return (qualifiers, trees),
        }
    }
}

/// Parses the input of `__point!`: `path; "name", field, …`, or `path, "group"; …`.
///
/// A syntax error goes to `errors` and ends the list of fields, since the start of the next field
/// is unknown.
pub(crate) fn point(tokens: TokenStream, errors: &mut Errors) -> Point {
    let mut trees = tokens.into_iter();
    let head: Vec<TokenTree> = trees.by_ref().take_while(|tree| !is_punct(tree, ';')).collect();
    let (krate, group) = match head.as_slice() {
        [krate @ .., comma, group] if is_punct(comma, ',') => {
            (krate, syn::parse2(group.to_token_stream()).ok())
        }
        krate => (krate, None),
    };
    let krate = krate.iter().cloned().collect();
    let mut point =
        Point { krate, group, is_usdt: false, name: PointName::Missing, fields: Vec::new(), future: None };
    let parser = |input: ParseStream| name_and_fields(input, &mut point);
    if let Err(error) = parser.parse2(trees.collect()) {
        errors.push(error);
    }
    point
}

fn name_and_fields(input: ParseStream, point: &mut Point) -> syn::Result<()> {
    if input.is_empty() {
        return Ok(());
    }
    if input.peek2(Token![,]) && input.fork().parse::<Ident>().is_ok_and(|word| word == "usdt") {
        input.parse::<Ident>()?;
        input.parse::<Token![,]>()?;
        point.is_usdt = true;
        if input.is_empty() {
            return Ok(());
        }
    }
    point.name = point_name(input)?;
    while !input.is_empty() {
        if !input.peek(Token![,]) {
            return Err(input.error("expected `,` between the parts of a probe"));
        }
        input.parse::<Token![,]>()?;
        if let Some(future) = future(input)? {
            point.future = Some(future);
        } else if !input.is_empty() {
            point.fields.push(field(input, "")?);
        }
    }
    Ok(())
}

/// Parses the contents of `args(…)`: whether there is a `*`, and the fields.
pub(crate) fn args_list(tokens: TokenStream) -> syn::Result<(bool, Vec<Field>)> {
    let parser = |input: ParseStream| {
        let all = input.parse::<Option<Token![*]>>()?.is_some();
        if all && !input.is_empty() {
            comma(input)?;
        }
        Ok((all, fields(input)?))
    };
    parser.parse2(tokens)
}

/// Parses the contents of `ret(…)`.
pub(crate) fn ret_list(tokens: TokenStream) -> syn::Result<Vec<Field>> {
    fields.parse2(tokens)
}

fn fields(input: ParseStream) -> syn::Result<Vec<Field>> {
    let mut fields = Vec::new();
    while !input.is_empty() {
        fields.push(field(input, "self")?);
        if !input.is_empty() {
            comma(input)?;
        }
    }
    Ok(fields)
}

fn comma(input: ParseStream) -> syn::Result<()> {
    if !input.peek(Token![,]) {
        return Err(input.error("expected `,` between fields"));
    }
    input.parse::<Token![,]>()?;
    Ok(())
}

fn point_name(input: ParseStream) -> syn::Result<PointName> {
    let mut expr = input.parse()?;
    // A `$name:literal` comes in a group without delimiters.
    while let Expr::Group(group) = expr {
        expr = *group.expr;
    }
    Ok(match expr {
        Expr::Lit(ExprLit { lit: Lit::Str(name), .. }) => PointName::Literal(name),
        expr => PointName::Other(expr.into_token_stream()),
    })
}

/// Parses the `async` block that ends a probe around a future.
fn future(input: ParseStream) -> syn::Result<Option<ExprAsync>> {
    if !input.peek(Token![async]) {
        return Ok(None);
    }
    let future = input.parse()?;
    input.parse::<Option<Token![,]>>()?;
    if input.is_empty() {
        Ok(Some(future))
    } else {
        Err(input.error("the `async` block ends the probe around it"))
    }
}

/// Parses one field. `keyword` may stand alone, as a variable does.
fn field(input: ParseStream, keyword: &str) -> syn::Result<Field> {
    let shorthand = style(input)?;
    let start = input.fork();
    let name = match input.parse::<Ident>() {
        Ok(name) => name,
        Err(_) if input.fork().call(Ident::parse_any).is_ok_and(|word| word == keyword) => {
            input.call(Ident::parse_any)?
        }
        Err(_) => return Err(not_a_field(&start, input)),
    };
    if input.is_empty() || input.peek(Token![,]) {
        let expr = syn::parse2(name.to_token_stream())?;
        return Ok(Field { name, style: shorthand, expr });
    }
    if !input.peek(Token![=]) || input.peek(Token![==]) || input.peek(Token![=>]) {
        return Err(not_a_field(&start, input));
    }
    let equals: Token![=] = input.parse()?;
    if shorthand != Style::Value {
        let message =
            format!("the mark of a field stands before its value: write `{name} = ?…` or `{name} = %…`");
        return Err(syn::Error::new(equals.span, message));
    }
    let style = style(input)?;
    if input.is_empty() || input.peek(Token![,]) {
        let message =
            format!("field `{name}` has no value; write `{name} = …`, or `{name}` alone for the variable");
        return Err(syn::Error::new(equals.span, message));
    }
    Ok(Field { name, style, expr: input.parse()? })
}

fn style(input: ParseStream) -> syn::Result<Style> {
    Ok(if input.parse::<Option<Token![?]>>()?.is_some() {
        Style::Debug
    } else if input.parse::<Option<Token![%]>>()?.is_some() {
        Style::Display
    } else {
        Style::Value
    })
}

/// Returns the error for the tokens at `start`. It underlines the whole expression, if it is one.
fn not_a_field(start: ParseStream, input: ParseStream) -> syn::Error {
    let message = "expected a field: `variable`, or `name = …` for any other expression";
    match start.parse::<Expr>() {
        Ok(expr) => syn::Error::new_spanned(expr, message),
        Err(_) => input.error(message),
    }
}

pub(crate) fn is_punct(tree: &TokenTree, wanted: char) -> bool {
    matches!(tree, TokenTree::Punct(punct) if punct.as_char() == wanted)
}

#[cfg(test)]
mod tests;
