//! Model ▶ tokens. An expansion names only the runtime's `__private::v1`, through the path that the user can
//! set: anything else may be shadowed.

use proc_macro2::{Group, Ident, Literal, Span, TokenStream, TokenTree};
use quote::{quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;

use crate::errors::Errors;
use crate::model::{Field, Function, Item, Point, PointName, Settings, Style};
use crate::{args, body, check, fallback, parse, replace};

/// `#[probe(args)] item`.
pub(crate) fn attribute(args: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let settings = check::settings(&args::parse(args), &mut errors);
    let item = parse::item(item);
    check::item(&item, &mut errors);
    let replaceable = replace::subject(&settings, &item, &mut errors);
    match (errors.into_result(), item) {
        (Ok(()), Item::Function(Function { name, head, body: Ok(body), .. })) => {
            let body = probed(&settings, &name, &body);
            match replaceable {
                None => quote!(#head #body),
                Some(subject) => {
                    let krate = krate_at(settings.krate.as_ref(), name.span());
                    replace::emit(&subject, &krate, &probe_name(&settings, &name), &body)
                }
            }
        }
        // The check has refused these.
        (Ok(()), item) => fallback::item(item, settings.krate.as_ref()),
        (Err(error), item) => fallback::attribute(&error, item, settings.krate.as_ref()),
    }
}

/// `__point!{ path; "name", field, … }`.
pub(crate) fn point(input: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let point = parse::point(input, &mut errors);
    check::point(&point, &mut errors);
    if let Err(error) = errors.into_result() {
        return fallback::expression(&error);
    }
    let Point { krate, name, fields } = point;
    let name = match name {
        PointName::Literal(name) => string(&name.value(), name.span()),
        // The check has refused these.
        PointName::Missing | PointName::Other(_) => return TokenStream::new(),
    };
    let fields = fields.iter().map(field);
    quote!(#krate::__private::v1::point! { (#name, ""); #(#fields),* })
}

fn field(Field { name, style, expr }: &Field) -> TokenStream {
    let style = match style {
        Style::Value => Ident::new("value", name.span()),
        Style::Debug => Ident::new("debug", name.span()),
        Style::Display => Ident::new("display", name.span()),
    };
    let name = string(&name.unraw().to_string(), name.span());
    // The borrow is shown at the expression, so that an error of its type is, too.
    let borrowed = quote_spanned!(expr.span()=> &(#expr));
    quote!(#name = #style(#borrowed))
}

/// The body with the entry and exit probe as its first statement.
fn probed(settings: &Settings, function: &Ident, body: &Group) -> Group {
    let (name, krate) = (probe_name(settings, function), &settings.krate);
    let (inner_attributes, statements) = split_inner_attributes(body.stream());
    let statements = points(statements, krate.as_ref());
    // Placed at the function's name, the probe's location is that of `fn`, not that of the attribute.
    let krate = krate_at(krate.as_ref(), function.span());
    let probe = quote_spanned!(function.span()=> #krate::__private::v1::function!((#name, "")););
    body::rebuilt(body, quote!(#inner_attributes #probe #statements))
}

/// The probe's name, as far as the macro gives it.
fn probe_name(settings: &Settings, function: &Ident) -> Literal {
    match &settings.name {
        Some(name) => string(&name.value(), name.span()),
        None => string(&function.unraw().to_string(), function.span()),
    }
}

/// `#![…]` must stay first in the body.
fn split_inner_attributes(body: TokenStream) -> (TokenStream, TokenStream) {
    let trees: Vec<TokenTree> = body.into_iter().collect();
    let mut end = 0;
    while let [TokenTree::Punct(hash), TokenTree::Punct(bang), TokenTree::Group(_), ..] = &trees[end..]
        && (hash.as_char(), bang.as_char()) == ('#', '!')
    {
        end += 3;
    }
    let mut trees = trees.into_iter();
    (trees.by_ref().take(end).collect(), trees.collect())
}

/// `body` with `probe!(…)` redirected to the runtime's `point!`.
pub(crate) fn points(body: TokenStream, krate: Option<&TokenStream>) -> TokenStream {
    let rewritten = body::rewrite(body.clone(), &mut |name, arguments| {
        let krate = krate_at(krate, name.span());
        quote_spanned!(name.span()=> #krate::point! #arguments)
    });
    rewritten.unwrap_or(body)
}

/// The path of `probe_runtime`, resolved as the user's own, but shown at `span`: errors point there, and the
/// runtime takes it for the probe's location.
fn krate_at(path: Option<&TokenStream>, span: Span) -> TokenStream {
    let Some(path) = path else {
        return quote_spanned!(span=> ::probe_runtime);
    };
    let place = |mut tree: TokenTree| {
        tree.set_span(tree.span().located_at(span));
        tree
    };
    path.clone().into_iter().map(place).collect()
}

fn string(value: &str, span: Span) -> Literal {
    let mut literal = Literal::string(value);
    literal.set_span(span);
    literal
}

#[cfg(test)]
mod tests;
