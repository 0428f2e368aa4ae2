//! Which functions can't be replaced, and why.

use proc_macro2::Span;
use quote::ToTokens;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, FnArg, GenericParam, Path, Safety, Signature, TypeImplTrait};

use crate::errors::Errors;

/// Judges a signature; tells whether nothing was wrong with it.
pub(super) fn check(
    attributes: &[Attribute],
    signature: &Signature,
    is_method: bool,
    errors: &mut Errors,
) -> bool {
    let mut refused = Vec::new();
    let mut refuse = |span: Span, message: &str| refused.push((span, message.to_owned()));
    if let Some(word) = &signature.asyncness {
        refuse(
            word.span(),
            "an `async fn` can't be replaced: it makes a future, and the probe is in the future; replace a function that it \
             calls",
        );
    }
    if let Safety::Unsafe(word) = &signature.safety {
        refuse(
            word.span(),
            "an `unsafe fn` can't be replaced: the closure could call `original` without `unsafe`; replace a safe function \
             that it calls, or that calls it",
        );
    }
    if let Some(variadic) = &signature.variadic {
        refuse(variadic.span(), "a variadic function can't be replaced: no closure takes its arguments");
    }
    for parameter in &signature.generics.params {
        match parameter {
            GenericParam::Lifetime(_) => (),
            GenericParam::Type(parameter) => refuse(parameter.ident.span(), GENERIC),
            GenericParam::Const(parameter) => refuse(parameter.ident.span(), GENERIC),
        }
    }
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("target_feature")) {
        refuse(
            attribute.span(),
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
                attribute.span(),
                "a function that may be replaced has the same arguments in each build: put `cfg` on two functions instead",
            );
        }
    }
    let mut types = Types { impls: Vec::new(), own: None };
    types.visit_signature(signature);
    for span in types.impls {
        refuse(
            span,
            "a function with `impl Trait` in its signature can't be replaced: the closure needs the type's name; write a type \
             that has one, such as `Box<dyn Trait>`",
        );
    }
    if let Some(span) = types.own.filter(|_| !is_method && signature.receiver().is_none()) {
        refuse(
            span,
            "to replace a function of an `impl` that takes no `self`, write `#[probe(replace(method))]`",
        );
    }
    let is_sound = refused.is_empty();
    refused.into_iter().for_each(|(span, message)| errors.at_span(span, message));
    is_sound
}

const GENERIC: &str = "a generic function can't be replaced: it has one probe, and a type for each of its uses, while a \
    closure has one type; replace a function that is not generic, which this one calls, or which calls it";

/// Finds what types must not be, and `Self`.
struct Types {
    impls: Vec<Span>,
    own: Option<Span>,
}

impl<'ast> Visit<'ast> for Types {
    fn visit_type_impl_trait(&mut self, it: &'ast TypeImplTrait) {
        self.impls.push(it.to_token_stream().span());
        visit::visit_type_impl_trait(self, it);
    }

    fn visit_path(&mut self, path: &'ast Path) {
        if path.segments.first().is_some_and(|first| first.ident == "Self") {
            self.own.get_or_insert(path.span());
        }
        visit::visit_path(self, path);
    }
}
