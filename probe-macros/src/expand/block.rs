//! A block with its probes: each function either as if it had `#[probe]`, or with a definition that
//! states why it has no probe.

use proc_macro2::{Group, Ident, TokenStream, TokenTree};
use quote::{quote, quote_spanned};

use super::function::{function, named};
use crate::check::{Part, Plan};
use crate::fallback;
use crate::model::{Function, Inside, Settings};
use crate::tokens::{self, krate_at, points};

/// Returns the block, and the items that must stand beside it.
pub(super) fn block(plan: Plan) -> TokenStream {
    let Plan { block, parts } = plan;
    let mut inside = TokenStream::new();
    let mut beside = TokenStream::new();
    for part in parts {
        match part {
            Part::Other(tokens) => inside.extend(tokens),
            Part::Block(plan) => inside.extend(self::block(plan)),
            Part::Function(subject, decision) => match (decision.verdict, subject) {
                (Ok(prepared), subject) => inside.extend(function(&decision.settings, &prepared, subject)),
                (Err(reason), Function { head, body: Ok(body), name, .. }) if has_statements(reason) => {
                    let body = skipping(&decision.settings, reason, &name, &body);
                    inside.extend(quote!(#head #body));
                }
                (Err(reason), subject) => {
                    let conditions = conditions(&subject.attributes);
                    let definition =
                        definition(&decision.settings, reason, &subject.name, &TokenStream::new());
                    inside.extend(fallback::function(subject, decision.settings.krate.as_ref()));
                    match block.inside {
                        Inside::Module => inside.extend(quote!(#(#conditions)* #definition)),
                        Inside::Methods => beside.extend(quote!(#(#conditions)* #definition)),
                    }
                }
            },
        }
    }
    let (head, body) = (&block.head, tokens::rebuilt(&block.body, inside));
    if beside.is_empty() {
        return quote!(#head #body);
    }
    // The definitions of a block's functions exist only if the block does.
    let conditions = conditions(&block.attributes);
    quote!(#head #body #(#conditions)* const _: () = { #beside };)
}

/// Returns whether such a function's body can hold a definition. The compiler allows only one macro
/// call in the body of a naked function.
fn has_statements(reason: &str) -> bool {
    !["naked", "bodiless"].contains(&reason)
}

/// Returns the body with the definition of the missing probe at its beginning.
fn skipping(settings: &Settings, reason: &str, function: &Ident, body: &Group) -> Group {
    let (inner_attributes, statements) = tokens::split_inner_attributes(body.stream());
    let statements = points(statements, settings);
    let definition = definition(settings, reason, function, &quote!(inside));
    tokens::rebuilt(body, quote!(#inner_attributes #definition #statements))
}

/// Returns the definition of a probe without sites, with its place.
fn definition(settings: &Settings, reason: &str, function: &Ident, place: &TokenStream) -> TokenStream {
    let krate = krate_at(settings.krate.as_ref(), function.span());
    let probe = named(settings, function, &format!("skipped={reason}\n"));
    quote_spanned!(function.span()=> #krate::__private::v1::skipped!(#probe #place);)
}

/// Returns the `#[cfg(…)]` among the attributes.
fn conditions(attributes: &[Group]) -> Vec<TokenStream> {
    let is_condition = |attribute: &&Group| matches!(attribute.stream().into_iter().next(), Some(TokenTree::Ident(word)) if word == "cfg");
    attributes.iter().filter(is_condition).map(|attribute| quote!(# #attribute)).collect()
}

#[cfg(test)]
mod tests;
