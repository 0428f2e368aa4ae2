//! `#[probe(replace)]`: functions that can be replaced, and their expansion.
//!
//! ```text
//! pub fn price(item: &Item, n: u32) -> Money { … }
//!    ▼
//! pub fn price(item: &Item, n: u32) -> Money        the site, then the body, inlined
//! pub enum price {}                                 a free function's handle: `price::install(…)`
//! impl price { … }                                  a method's stand beside it: `Type::price_install(…)`
//!     __probe_site, __probe_definition              the site, and its probe
//!     __probe_replaced, __probe_run                 the code of an active site
//!     __probe_original                              the body
//!     install
//! ```
//! Unlike everything else in this crate, this parses the signature: its types become part of the
//! closure's type, and its arguments part of calls.

mod emit;
mod lifetimes;
mod refusals;

pub(crate) use emit::emit;

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote};
use syn::{Attribute, FnArg, Pat, Receiver, ReceiverKind, Signature, Type, Visibility};

use crate::errors::Errors;
use crate::model::{Function, Settings};
use crate::parse;
use lifetimes::Lifetimes;

/// A function that can be replaced.
pub(crate) struct Replaceable {
    attributes: Vec<Attribute>,
    visibility: Visibility,
    signature: Signature,
    /// Whether it is in an `impl`.
    is_method: bool,
    arguments: Vec<Argument>,
    /// Types of the arguments, without names for the receiver, with all lifetimes named; and of the
    /// result.
    types: Vec<Type>,
    result: Option<Type>,
    lifetimes: Lifetimes,
}

/// An argument as it is passed on.
struct Argument {
    name: Ident,
    /// The declaration in the function, without the pattern.
    declared: TokenStream,
}

/// Parses the function under `#[probe(replace)]`; `None`, with the reason in `errors`, if it can't
/// be replaced.
pub(crate) fn replaceable(
    settings: &Settings,
    function: &Function,
    errors: &mut Errors,
) -> Option<Replaceable> {
    let replace = settings.replace.as_ref()?;
    let (attributes, visibility, signature) = match parse::head(function.head.clone()) {
        Ok(parsed) => parsed,
        Err(error) => {
            errors.at_span(
                error.span(),
                format!("`replace` can't read this signature ({error}); remove `replace`, or write it in another way"),
            );
            return None;
        }
    };
    let is_sound = refusals::check(&attributes, &signature, replace.is_method, errors);
    let lifetimes = Lifetimes::of(&signature, errors);
    let (types, result) = lifetimes.named(&signature);
    is_sound.then(|| Replaceable {
        is_method: replace.is_method || signature.receiver().is_some(),
        arguments: signature.inputs.iter().enumerate().map(argument).collect(),
        attributes,
        visibility,
        types,
        result,
        lifetimes,
        signature,
    })
}

fn argument((at, argument): (usize, &FnArg)) -> Argument {
    match argument {
        FnArg::Receiver(receiver) => {
            let declared = receiver_alone(receiver);
            Argument { name: Ident::new("self", receiver.self_token.span), declared }
        }
        FnArg::Typed(typed) => {
            let name = match &*typed.pat {
                Pat::Ident(pattern)
                    if pattern.subpat.is_none() && !pattern.ident.to_string().starts_with('_') =>
                {
                    pattern.ident.clone()
                }
                _ => format_ident!("__probe_{at}", span = Span::call_site()),
            };
            let (attributes, ty) = (&typed.attrs, &typed.ty);
            Argument { declared: quote!(#(#attributes)* #name: #ty), name }
        }
    }
}

/// Returns the receiver without `mut`, which matters only for the body.
fn receiver_alone(receiver: &Receiver) -> TokenStream {
    let receiver = match &receiver.kind {
        ReceiverKind::Reference(..) => receiver.clone(),
        _ => Receiver { mutability: None, ..receiver.clone() },
    };
    quote!(#receiver)
}

#[cfg(test)]
mod tests;
