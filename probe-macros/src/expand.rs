//! Model ▶ tokens. An expansion names only the runtime's `__private::v1`, through the path that
//! the user can set: any other name may be shadowed.

mod block;
mod fields;
mod function;

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote};

use crate::check::Prepared;
use crate::model::{Errors, Item, Point, PointName};
use crate::tokens::{krate_at, string};
use crate::{args, asynchronous, check, fallback, parse};

/// Expands `#[probe(args)] item`.
pub(crate) fn attribute(args: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let settings = check::settings(&args::parse(args.clone()), &mut errors);
    let item = parse::item(item);
    check::fits(&settings, &item, &mut errors);
    check::alone(&item, &mut errors);
    if let Item::Block(block) = item {
        if errors.is_empty() && asynchronous::early(&settings, &block).is_some() {
            let krate = krate_at(settings.krate.as_ref(), Span::call_site());
            return asynchronous::deferred_block(&krate, args, &block);
        }
        let plan = check::block(block, &settings, &mut errors);
        return match errors.into_result() {
            Ok(()) => block::block(plan),
            Err(error) => fallback::plan(&error, plan, settings.krate.as_ref()),
        };
    }
    if settings.skip.is_some() {
        // On a single function, `skip` has no effect: there is no block that would add a probe.
        return match errors.into_result() {
            Ok(()) => fallback::item(item, settings.krate.as_ref()),
            Err(error) => fallback::attribute(&error, item, settings.krate.as_ref()),
        };
    }
    check::item(&item, &mut errors);
    let prepared = match &item {
        Item::Function(function) => check::prepared(&settings, function, &mut errors),
        Item::Block(_) | Item::Other { .. } => Prepared::default(),
    };
    match (errors.into_result(), item) {
        (Ok(()), Item::Function(function)) => function::function(&settings, &prepared, function),
        // The check has refused other items.
        (Ok(()), item) => fallback::item(item, settings.krate.as_ref()),
        (Err(error), item) => fallback::attribute(&error, item, settings.krate.as_ref()),
    }
}

/// Expands `__point!{ path; "name", field, … }` or, in a function of a group, `__point!{ path,
/// "group"; … }`.
pub(crate) fn point(input: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let point = parse::point(input, &mut errors);
    check::point(&point, &mut errors);
    if let Err(error) = errors.into_result() {
        return fallback::expression(&error);
    }
    let Point { krate, group, is_usdt, name, fields, future } = point;
    let mut notes = group.map_or_else(String::new, |group| format!("group={}\n", group.value()));
    let usdt = is_usdt.then(|| {
        notes += USDT_NOTE;
        quote!(, usdt)
    });
    let name = match name {
        PointName::Literal(name) => string(&name.value(), name.span()),
        // The check has refused these.
        PointName::Missing | PointName::Other(_) => return TokenStream::new(),
    };
    if let Some(future) = future {
        let future = asynchronous::reporting(future.into_token_stream(), &krate);
        return quote!(#krate::__private::v1::future! { (#name, #notes #usdt); #krate::__private::v1::Told; #future });
    }
    let fields = fields::list(&fields);
    quote!(#krate::__private::v1::point! { (#name, #notes #usdt) #fields })
}

/// The note of a definition whose sites have USDT probes beside them.
const USDT_NOTE: &str = "usdt=1\n";

#[cfg(test)]
mod tests;
