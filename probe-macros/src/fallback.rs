//! What is left in place of a macro call that has errors: enough that rustc reports nothing besides them.

use proc_macro2::{Group, TokenStream};
use quote::quote;
use syn::Error;

use crate::model::{Function, Item};
use crate::{body, expand};

/// The errors of `#[probe]`, and the item.
pub(crate) fn attribute(error: &Error, item: Item, krate: Option<&TokenStream>) -> TokenStream {
    let errors = error.to_compile_error();
    let is_expression = matches!(item, Item::Other { keyword: None, .. });
    let item = self::item(item, krate);
    if is_expression { quote!({ #errors #item }) } else { quote!(#errors #item) }
}

/// The item as it was, without a probe of its own. Its `probe!(…)`, which only the attribute can make
/// resolve, keep working, or vanish from a function that can't have any.
pub(crate) fn item(item: Item, krate: Option<&TokenStream>) -> TokenStream {
    match item {
        Item::Other { tokens, .. } => tokens,
        Item::Function(function) => self::function(function, krate),
    }
}

fn function(function: Function, krate: Option<&TokenStream>) -> TokenStream {
    let is_const = function.is("const");
    let Function { head, body, .. } = function;
    match body {
        Ok(body) if is_const => {
            let body = without_points(&body);
            quote!(#head #body)
        }
        Ok(body) => {
            let body = with_points(&body, krate);
            quote!(#head #body)
        }
        Err(end) => quote!(#head #end),
    }
}

fn with_points(body: &Group, krate: Option<&TokenStream>) -> Group {
    body::rebuilt(body, expand::points(body.stream(), krate))
}

fn without_points(body: &Group) -> Group {
    let rewritten = body::rewrite(body.stream(), &mut |_, _| quote!(()));
    body::rebuilt(body, rewritten.unwrap_or_else(|| body.stream()))
}

/// The errors as one expression, whatever their number.
pub(crate) fn expression(error: &Error) -> TokenStream {
    let errors = error.to_compile_error();
    quote!({ #errors })
}
