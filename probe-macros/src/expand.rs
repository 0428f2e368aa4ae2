//! Model ▶ tokens. An expansion names only the runtime's `__private::v1`, through the path that the user can
//! set: anything else may be shadowed.

mod fields;

use proc_macro2::{Literal, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote, quote_spanned};
use syn::ext::IdentExt;

use crate::errors::Errors;
use crate::model::{Captures, Function, Item, Point, PointName, Settings};
use crate::{args, body, check, fallback, parse};

/// `#[probe(args)] item`.
pub(crate) fn attribute(args: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let settings = check::settings(&args::parse(args), &mut errors);
    let item = parse::item(item);
    check::item(&item, &mut errors);
    let captures = match &item {
        Item::Function(function) => check::captures(&settings, function, &mut errors),
        Item::Other { .. } => Captures::default(),
    };
    match (errors.into_result(), item) {
        (Ok(()), Item::Function(function @ Function { body: Ok(_), .. })) => {
            let body = probed(&settings, &captures, &function);
            let head = &function.head;
            quote!(#head #body)
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
    let fields = fields::list(&fields);
    quote!(#krate::__private::v1::point! { (#name, "") #fields })
}

/// The body with the entry and exit probe as its first statement, or around it, if its result is recorded.
fn probed(settings: &Settings, captures: &Captures, function: &Function) -> TokenStream {
    let Settings { name, krate, .. } = settings;
    let (Function { name: ident, .. }, Ok(body)) = (function, &function.body) else {
        return TokenStream::new();
    };
    let span = ident.span();
    let name = match name {
        Some(name) => string(&name.value(), name.span()),
        None => string(&ident.unraw().to_string(), span),
    };
    let (inner_attributes, statements) = split_inner_attributes(body.stream());
    let statements = points(statements, krate.as_ref());
    // Placed at the function's name, the probe's location is that of `fn`, not that of the attribute.
    let krate = krate_at(krate.as_ref(), span);
    let entry = (!captures.entry.is_empty()).then(|| fields::list(&captures.entry));
    let statements = match &captures.exit {
        None => {
            let probe = quote_spanned!(span=> #krate::__private::v1::function!((#name, "") #entry););
            quote!(#probe #statements)
        }
        Some(exit) => {
            let entry = entry.unwrap_or_else(|| quote!(;));
            let closure = fields::closure(exit, body, &statements, &krate, function);
            // Clippy asks for it, as of every last call that returns nothing.
            let end = fields::is_unit(&exit.ty).then(|| quote_spanned!(span=> ;));
            let exit = fields::exit(exit);
            quote_spanned!(span=> #krate::__private::v1::returning! {
                (#name, "");
                entry(#entry);
                exit(#exit);
                #closure
            } #end)
        }
    };
    body::rebuilt(body, quote!(#inner_attributes #statements)).into_token_stream()
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
