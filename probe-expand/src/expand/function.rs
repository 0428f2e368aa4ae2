//! A function with its probes: at the beginning of its body, around the body if the result is
//! recorded, or around its future.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use quote::{quote, quote_spanned};
use syn::LitStr;
use syn::ext::IdentExt;

use super::{USDT_NOTE, fields};
use crate::asynchronous::{self, Asynchronous, Wrapped};
use crate::check::{Captures, Prepared};
use crate::model::{Function, Item, Settings};
use crate::tokens::{self, krate_at, points, string};
use crate::{fallback, replace};

/// Expands a function that passed the check.
pub(super) fn function(settings: &Settings, prepared: &Prepared, function: Function) -> TokenStream {
    let krate = settings.krate.as_ref();
    let captures = &prepared.captures;
    let (head, body) = match (asynchronous::asynchronous(&function), &function.body) {
        (Ok(None), Ok(body)) => (function.head.clone(), probed(settings, captures, &function, body)),
        (Ok(Some(_)), _) if asynchronous::is_early(settings, &function) => {
            let krate = krate_at(krate, function.name.span());
            return asynchronous::deferred(&krate, settings.to_arguments(), &function);
        }
        (Ok(Some(found)), Ok(body)) => future(settings, captures, found, &function, body),
        // The check has refused it.
        (Ok(_), Err(_)) => return fallback::function(function, krate),
        (Err(error), _) => return fallback::attribute(&error, Item::Function(function), krate),
    };
    let Some(replaceable) = &prepared.replaceable else { return quote!(#head #body) };
    let krate = krate_at(krate, function.name.span());
    replace::emit(replaceable, &krate, &named(settings, &function.name, ""), &body)
}

/// Returns the body with the entry and exit probe as its first statement, or around it, if its
/// result is recorded.
fn probed(settings: &Settings, captures: &Captures, function: &Function, body: &Group) -> Group {
    let probe = placed(settings, &function.name);
    let span = function.name.span();
    let (inner_attributes, statements) = tokens::split_inner_attributes(body.stream());
    let statements = points(statements, settings);
    // At the function's name, the probe's location is that of `fn`, not that of the attribute.
    let krate = krate_at(settings.krate.as_ref(), span);
    let entry = entry(captures);
    let statements = match &captures.exit {
        None => {
            let probe = quote_spanned!(span=> #krate::__private::v1::function!(#probe #entry););
            quote!(#probe #statements)
        }
        Some(exit) => {
            let entry = entry.unwrap_or_else(|| quote!(;));
            let closure = fields::closure(exit, body, &statements, &krate, function);
            // Clippy asks for a semicolon after a last call that returns `()`.
            let end = fields::is_unit(&exit.ty).then(|| quote_spanned!(span=> ;));
            let exit = fields::exit(exit);
            quote_spanned!(span=> #krate::__private::v1::returning! {
                #probe;
                entry(#entry);
                exit(#exit);
                #closure
            } #end)
        }
    };
    let mut rebuilt = tokens::rebuilt(body, quote!(#inner_attributes #statements));
    rebuilt.set_span(place_of(&function.name, body.span()));
    rebuilt
}

/// Returns the span for the braces of a body. For `Copy` and `Ord` types, clippy wants the bodies
/// of `clone` and `partial_cmp` to be one expression, which the probe hides. It does not ask for
/// code from a macro.
fn place_of(function: &Ident, body: Span) -> Span {
    if function == "clone" || function == "partial_cmp" { Span::mixed_site().located_at(body) } else { body }
}

/// Returns the fields of the entry, if it has any.
fn entry(captures: &Captures) -> Option<TokenStream> {
    (!captures.entry.is_empty()).then(|| fields::list(&captures.entry))
}

/// Returns the head and body of the function, with the probes of a future around the one that it
/// returns.
fn future(
    settings: &Settings,
    captures: &Captures,
    found: Asynchronous,
    function: &Function,
    body: &Group,
) -> (TokenStream, Group) {
    let probe = placed(settings, &function.name);
    let span = function.name.span();
    let krate = krate_at(settings.krate.as_ref(), span);
    let entry = entry(captures);
    let sites = (entry.is_some() || captures.exit.is_some()).then(|| {
        let place = Ident::new(if entry.is_some() { "inside" } else { "outside" }, span);
        let exit = captures.exit.as_ref().map(fields::exit);
        quote_spanned!(span=> entry #place; exit(#exit);)
    });
    let stage = if found.wrapped() == Wrapped::Call { quote!(Noted::Fresh) } else { quote!(Told) };
    let entered = entry.map(|entry| quote_spanned!(span=> #krate::__private::v1::entered!(#probe #entry);));
    let statements = |statements| points(statements, settings);
    found.expand(function, body, &krate, entered.as_ref(), statements, |future| {
        quote_spanned!(span=> #krate::__private::v1::future! {
            #probe; #sites #krate::__private::v1::#stage; #future
        })
    })
}

/// Returns the name of a function's probe as runtime macros take it: `("name", "notes")`.
pub(super) fn named(settings: &Settings, function: &Ident, notes: &str) -> TokenTree {
    let name = match &settings.name {
        Some(name) => string(&name.value(), name.span()),
        None => string(&function.unraw().to_string(), function.span()),
    };
    let notes = string(&format!("{}{notes}", self::notes(settings)), function.span());
    let mut group = Group::new(Delimiter::Parenthesis, quote!(#name, #notes));
    group.set_span(function.span());
    group.into()
}

/// Returns the name of the probe at the function's entry and exit. With `usdt`, that word follows
/// the notes.
fn placed(settings: &Settings, function: &Ident) -> TokenTree {
    let Some(usdt) = &settings.usdt else { return named(settings, function, "") };
    let TokenTree::Group(named) = named(settings, function, USDT_NOTE) else { unreachable!("it is a group") };
    let stream = named.stream();
    let mut group = Group::new(Delimiter::Parenthesis, quote!(#stream, #usdt));
    group.set_span(named.span());
    group.into()
}

/// Returns the notes of a probe: `key=value`, one a line.
fn notes(settings: &Settings) -> String {
    let note = |key, value: &Option<LitStr>| {
        value.as_ref().map_or_else(String::new, |value| format!("{key}={}\n", value.value()))
    };
    note("group", &settings.group) + &note("doc", &settings.doc)
}
