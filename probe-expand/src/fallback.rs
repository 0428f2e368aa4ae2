//! The expansion of a macro call with errors: enough code that rustc reports no further errors.

use proc_macro2::{Group, TokenStream};
use quote::quote;
use syn::Error;

use crate::check::{Part, Plan};
use crate::model::{Block, Function, Item, Settings};
use crate::tokens;

/// Returns the errors of `#[probe]`, and the item.
pub(crate) fn attribute(error: &Error, item: Item, krate: Option<&TokenStream>) -> TokenStream {
    let errors = error.to_compile_error();
    let is_expression = matches!(item, Item::Other { keyword: None, .. });
    let item = self::item(item, krate);
    if is_expression { quote!({ #errors #item }) } else { quote!(#errors #item) }
}

/// Returns the item as it was, without a probe of its own.
pub(crate) fn item(item: Item, krate: Option<&TokenStream>) -> TokenStream {
    match item {
        Item::Other { tokens, .. } => tokens,
        Item::Function(function) => self::function(function, krate),
        // Blocks are planned, and reach this file as plans.
        Item::Block(Block { head, body, .. }) => quote!(#head #body),
    }
}

/// Returns the function as it was. Its `probe!(…)`, which only the attribute can resolve, keep
/// working, or vanish from a function that can't have any.
pub(crate) fn function(function: Function, krate: Option<&TokenStream>) -> TokenStream {
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

/// Returns the errors of a block, and the block without a probe. The `#[probe]` inside are removed,
/// so that they don't repeat errors.
pub(crate) fn plan(error: &Error, plan: Plan, krate: Option<&TokenStream>) -> TokenStream {
    let errors = error.to_compile_error();
    let block = unprobed(plan, krate);
    quote!(#errors #block)
}

fn unprobed(plan: Plan, krate: Option<&TokenStream>) -> TokenStream {
    let inside = plan.parts.into_iter().map(|part| match part {
        Part::Other(tokens) => tokens,
        Part::Function(function, _) => self::function(function, krate),
        Part::Block(plan) => unprobed(plan, krate),
    });
    let (head, body) = (&plan.block.head, tokens::rebuilt(&plan.block.body, inside.collect()));
    quote!(#head #body)
}

fn with_points(body: &Group, krate: Option<&TokenStream>) -> Group {
    let settings = Settings { krate: krate.cloned(), ..Settings::default() };
    tokens::rebuilt(body, tokens::points(body.stream(), &settings))
}

fn without_points(body: &Group) -> Group {
    let rewritten = tokens::rewrite(body.stream(), &mut |_, _| quote!(()));
    tokens::rebuilt(body, rewritten.unwrap_or_else(|| body.stream()))
}

/// Returns the errors as one expression, whatever their number.
pub(crate) fn expression(error: &Error) -> TokenStream {
    let errors = error.to_compile_error();
    quote!({ #errors })
}
