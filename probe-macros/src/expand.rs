//! Model ▶ tokens. An expansion names only the runtime's `__private::v1`, through the path that the user can
//! set: anything else may be shadowed.

use proc_macro2::{Ident, Literal, Span, TokenStream, TokenTree};
use quote::{quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;

use crate::asynchronous::Asynchronous;
use crate::errors::Errors;
use crate::model::{Field, Function, Item, Point, PointName, Settings, Style};
use crate::{args, asynchronous, body, check, fallback, parse};

/// `#[probe(args)] item`.
pub(crate) fn attribute(args: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let settings = check::settings(&args::parse(args.clone()), &mut errors);
    let item = parse::item(item);
    check::item(&item, &mut errors);
    match (errors.into_result(), item) {
        (Ok(()), Item::Function(function)) => self::function(&settings, args, function),
        // The check has refused these.
        (Ok(()), item) => fallback::item(item, settings.krate.as_ref()),
        (Err(error), item) => fallback::attribute(&error, item, settings.krate.as_ref()),
    }
}

fn function(settings: &Settings, args: TokenStream, function: Function) -> TokenStream {
    let krate = settings.krate.as_ref();
    match asynchronous::asynchronous(&function) {
        Ok(None) => probed(settings, function),
        Ok(Some(_)) if !settings.is_deferred && function.attributes.iter().any(asynchronous::is_macro) => {
            asynchronous::deferred(&krate_at(krate, function.name.span()), args, &function)
        }
        Ok(Some(found)) => future(settings, found, &function).unwrap_or_else(|| probed(settings, function)),
        Err(error) => fallback::attribute(&error, Item::Function(function), krate),
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
    let Point { krate, name, fields, future } = point;
    let name = match name {
        PointName::Literal(name) => string(&name.value(), name.span()),
        // The check has refused these.
        PointName::Missing | PointName::Other(_) => return TokenStream::new(),
    };
    if let Some(future) = future {
        return quote!(#krate::__private::v1::future! { (#name, ""); #krate::__private::v1::Told; #future });
    }
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

/// The function with the entry and exit probe as the first statement of its body.
fn probed(settings: &Settings, function: Function) -> TokenStream {
    let probe = named(settings, &function.name);
    let span = function.name.span();
    let Function { name, head, body, .. } = function;
    let body = match body {
        Ok(body) => body,
        // The check has refused it.
        Err(end) => return quote!(#head #end),
    };
    let (inner_attributes, statements) = split_inner_attributes(body.stream());
    let statements = points(statements, settings.krate.as_ref());
    // Placed at the function's name, the probe's location is that of `fn`, not that of the attribute.
    let krate = krate_at(settings.krate.as_ref(), span);
    let probe = quote_spanned!(span=> #krate::__private::v1::function!(#probe););
    let place = place_of(&name, body.span());
    let mut body = body::rebuilt(&body, quote!(#inner_attributes #probe #statements));
    body.set_span(place);
    quote!(#head #body)
}

/// The braces of a body. Clippy wants those of `clone` and `partial_cmp` to hold one expression, of `Copy` and of `Ord` types, and can't
/// tell whether they still do; where they come from a macro, it does not ask.
fn place_of(function: &Ident, body: Span) -> Span {
    if function == "clone" || function == "partial_cmp" { Span::mixed_site().located_at(body) } else { body }
}

/// The function with the probes of a future around the one that it returns.
fn future(settings: &Settings, found: Asynchronous, function: &Function) -> Option<TokenStream> {
    let probe = named(settings, &function.name);
    let span = function.name.span();
    let krate = krate_at(settings.krate.as_ref(), span);
    let body = function.body.as_ref().ok()?;
    let (inner_attributes, statements) = split_inner_attributes(body.stream());
    let statements = points(statements, settings.krate.as_ref());
    found.expand(function, &krate, (inner_attributes, statements), |future, is_block| {
        let stage = if is_block { quote!(Told) } else { quote!(Noted::Fresh) };
        quote_spanned!(span=> #krate::__private::v1::future! { #probe; #krate::__private::v1::#stage; #future })
    })
}

/// What the runtime's macros take for a probe: `("name", "notes")`.
fn named(settings: &Settings, function: &Ident) -> TokenStream {
    let name = match &settings.name {
        Some(name) => string(&name.value(), name.span()),
        None => string(&function.unraw().to_string(), function.span()),
    };
    quote_spanned!(function.span()=> (#name, ""))
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
