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

pub(crate) use emit::emit;

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote};
use syn::visit::{self, Visit};
use syn::{
    Attribute, FnArg, GenericParam, Pat, Path, Receiver, ReceiverKind, ReturnType, Safety, Signature, Type,
    TypeImplTrait, Visibility,
};

use crate::model::{Errors, Function, Settings};
use crate::signature;
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
    let (attributes, visibility, signature) = match signature::head(function.head.clone()) {
        Ok(parsed) => parsed,
        Err(error) => {
            errors.at_span(
                error.span(),
                format!("`replace` can't read this signature ({error}); remove `replace`, or write it in another way"),
            );
            return None;
        }
    };
    let is_sound = check(&attributes, &signature, replace.is_method, errors);
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

/// Checks a signature; returns whether it found no errors.
fn check(attributes: &[Attribute], signature: &Signature, is_method: bool, errors: &mut Errors) -> bool {
    let mut refused = Vec::new();
    let mut refuse = |place: TokenStream, message: &str| refused.push((place, message.to_owned()));
    if let Some(word) = &signature.asyncness {
        refuse(
            word.to_token_stream(),
            "an `async fn` can't be replaced: it makes a future, and the probe is in the future; replace a function that it \
             calls",
        );
    }
    if let Safety::Unsafe(word) = &signature.safety {
        refuse(
            word.to_token_stream(),
            "an `unsafe fn` can't be replaced: the closure could call `original` without `unsafe`; replace a safe function \
             that it calls, or that calls it",
        );
    }
    if let Some(variadic) = &signature.variadic {
        refuse(
            variadic.to_token_stream(),
            "a variadic function can't be replaced: no closure takes its arguments",
        );
    }
    for parameter in &signature.generics.params {
        match parameter {
            GenericParam::Lifetime(_) => (),
            GenericParam::Type(parameter) => refuse(parameter.ident.to_token_stream(), GENERIC),
            GenericParam::Const(parameter) => refuse(parameter.ident.to_token_stream(), GENERIC),
        }
    }
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("target_feature")) {
        refuse(
            attribute.to_token_stream(),
            "a function with `target_feature` can't be replaced: the closure calls it from code without the feature; replace \
             a function that calls it",
        );
    }
    for argument in &signature.inputs {
        let attributes = match argument {
            FnArg::Receiver(receiver) => &receiver.attrs,
            FnArg::Typed(typed) => &typed.attrs,
        };
        for attribute in
            attributes.iter().filter(|it| it.path().is_ident("cfg") || it.path().is_ident("cfg_attr"))
        {
            refuse(
                attribute.to_token_stream(),
                "a function that may be replaced has the same arguments in each build: put `cfg` on two functions instead",
            );
        }
    }
    if let ReturnType::Type(_, ty) = &signature.output
        && let Type::Never(never) = &**ty
    {
        refuse(
            never.to_token_stream(),
            "a function that never returns can't be replaced: no closure's type can say so; return \
             `std::convert::Infallible`",
        );
    }
    let mut types = Types { impls: Vec::new(), own: None };
    types.visit_signature(signature);
    for place in types.impls {
        refuse(
            place,
            "a function with `impl Trait` in its signature can't be replaced: the closure needs the type's name; write a type \
             that has one, such as `Box<dyn Trait>`",
        );
    }
    if let Some(place) = types.own.filter(|_| !is_method && signature.receiver().is_none()) {
        refuse(
            place,
            "to replace a function of an `impl` that takes no `self`, write `#[probe(replace(method))]`",
        );
    }
    let is_sound = refused.is_empty();
    refused.into_iter().for_each(|(place, message)| errors.at(place, message));
    is_sound
}

const GENERIC: &str = "a generic function can't be replaced: it has one probe, and a type for each of its uses, while a \
    closure has one type; replace a function that is not generic, which this one calls, or which calls it";

/// Finds types that a signature must not contain, and `Self`.
struct Types {
    impls: Vec<TokenStream>,
    own: Option<TokenStream>,
}

impl<'ast> Visit<'ast> for Types {
    fn visit_type_impl_trait(&mut self, it: &'ast TypeImplTrait) {
        self.impls.push(it.to_token_stream());
        visit::visit_type_impl_trait(self, it);
    }

    fn visit_path(&mut self, path: &'ast Path) {
        if path.segments.first().is_some_and(|first| first.ident == "Self") {
            self.own.get_or_insert_with(|| path.to_token_stream());
        }
        visit::visit_path(self, path);
    }
}

#[cfg(test)]
mod tests;
