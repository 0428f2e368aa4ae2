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

/// Whole expansions, compared as text, and the types of closures.
#[cfg(test)]
mod tests {
    use proc_macro2::TokenStream;
    use quote::quote;

    use crate::expand::attribute;

    #[test]
    fn a_free_function() {
        let function = quote!(
            #[must_use]
            #[allow(unused)]
            pub fn price(item: &Item, mut n: u32) -> Money {
                n += 1;
                item.times(n)
            }
        );
        let expected = quote! {
            #[must_use]
            #[allow(unused)]
            pub fn price(item: &Item, n: u32) -> Money {
                if price::__probe_site::<false>().is_active() {
                    return price::__probe_replaced(item, n);
                }
                price::__probe_original(item, n)
            }

            #[doc = " Replaces [`price`](fn@price) at run time, by `price::install`."]
            #[allow(missing_copy_implementations, missing_debug_implementations, non_camel_case_types, unreachable_pub)]
            pub enum price {}

            #[allow(dead_code, private_interfaces, single_use_lifetimes, unreachable_pub, unused_lifetimes, clippy::all,
                clippy::pedantic)]
            impl price {
                #[inline(always)]
                fn __probe_site<const ASKED: k::__private::v1::bool>() -> k::__private::v1::Passed {
                    k::__private::v1::replace_site! { ASKED, ("price", "") }
                }
                #[inline(never)]
                fn __probe_definition() -> k::__private::v1::Passed {
                    price::__probe_site::<true>()
                }
                #[cold]
                #[inline(never)]
                fn __probe_replaced(item: &Item, n: u32) -> Money {
                    price::__probe_run(price::__probe_definition().share().left(), item, n)
                }
                fn __probe_run<'__0>(__probe_left: k::__private::v1::Left<'_>, item: &'__0 Item, n: u32) -> Money {
                    match __probe_left.next::<price, dyn for<'__call_0> k::__private::v1::Fn(
                        &dyn for<'__original_0> k::__private::v1::Fn(&'__original_0 Item, u32) -> Money,
                        &'__call_0 Item, u32
                    ) -> Money + k::__private::v1::Send + k::__private::v1::Sync>() {
                        k::__private::v1::Some((__probe_closure, __probe_left)) => {
                            __probe_closure(&|item, n| price::__probe_run(__probe_left, item, n), item, n)
                        }
                        k::__private::v1::None => price::__probe_original(item, n),
                    }
                }
                k::__private::v1::installer! {
                    #[doc = " Installs a closure that runs instead of `price`, until what is returned is dropped. It is handed"]
                    #[doc = " the function as it was before, and the call's arguments."]
                    #[doc = ""]
                    #[doc = " # Errors"]
                    #[doc = " Where not every site of the function can be activated, and where there are none."]
                    #[allow(dead_code, private_interfaces, unreachable_pub)]
                    pub fn install(closure: impl for<'__call_0> k::__private::v1::Fn(
                        &dyn for<'__original_0> k::__private::v1::Fn(&'__original_0 Item, u32) -> Money,
                        &'__call_0 Item, u32
                    ) -> Money + k::__private::v1::Send + k::__private::v1::Sync + 'static)
                        -> k::__private::v1::Result<k::__private::v1::Replacement, k::__private::v1::Error>
                    {
                        k::__private::v1::install::<price, dyn for<'__call_0> k::__private::v1::Fn(
                            &dyn for<'__original_0> k::__private::v1::Fn(&'__original_0 Item, u32) -> Money,
                            &'__call_0 Item, u32
                        ) -> Money + k::__private::v1::Send + k::__private::v1::Sync, _>(
                            price::__probe_definition(), closure, |closure| k::__private::v1::Box::new(closure)
                        )
                    }
                }
            }

            impl price {
                #[allow(unused)]
                #[allow(clippy::inline_always, clippy::too_many_arguments, clippy::unnecessary_wraps)]
                #[inline(always)]
                fn __probe_original(item: &Item, mut n: u32) -> Money {
                    k::__private::v1::function!(("price", ""));
                    n += 1;
                    item.times(n)
                }
            }
        };
        assert_eq!(attribute(quote!(replace, crate = k), function).to_string(), expected.to_string());
    }

    /// Checks the closure's type for a method `f` with this signature.
    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "shorter to call")]
    fn closure(signature: TokenStream, expected: TokenStream) {
        let actual = attribute(quote!(replace(method), crate = k), quote!(#signature { x })).to_string();
        // Formatting adds commas at the ends of lines.
        let short = actual.replace("k :: __private :: v1 :: ", "").replace(" ,)", ")");
        let expected = format!("closure : impl {expected} + Send + Sync + 'static").replace(" ,)", ")");
        assert!(short.contains(&expected), "no {expected} in {short}");
    }

    #[test]
    fn elided_lifetimes_get_names() {
        closure(quote!(fn f()), quote!(Fn(&dyn Fn())));
        closure(
            quote!(fn f(&self, a: &str, b: S<'_>) -> &str),
            quote!(
                for<'__call_0, '__call_1, '__call_2> Fn(
                    &dyn for<'__original_0, '__original_1, '__original_2> Fn(
                        &'__original_0 Self,
                        &'__original_1 str,
                        S<'__original_2>,
                    )
                        -> &'__original_0 str,
                    &'__call_0 Self,
                    &'__call_1 str,
                    S<'__call_2>,
                ) -> &'__call_0 str
            ),
        );
        closure(
            quote!(fn f(a: u8, b: &'static str, c: &'static u8) -> &str),
            quote!(
                Fn(
                    &dyn Fn(u8, &'static str, &'static u8) -> &'static str,
                    u8,
                    &'static str,
                    &'static u8,
                ) -> &'static str
            ),
        );
    }

    #[test]
    fn lifetimes_that_a_type_binds_keep_their_names() {
        closure(
            quote!(fn f<'a>(a: fn(&str) -> &'a str, b: &'a dyn for<'x> Fn(&'x u8, &u8)) -> S<'_>),
            quote!(
                for<'__call_a> Fn(
                    &dyn for<'__original_a> Fn(
                        fn(&str) -> &'__original_a str,
                        &'__original_a dyn for<'x> Fn(&'x u8, &u8),
                    ) -> S<'__original_a>,
                    fn(&str) -> &'__call_a str,
                    &'__call_a dyn for<'x> Fn(&'x u8, &u8),
                ) -> S<'__call_a>
            ),
        );
    }

    #[test]
    fn bounded_lifetimes_are_the_calls() {
        let expected = quote!(
            for<'__call_a, '__call_b, '__call_0> Fn(
                &dyn for<'__original_0> Fn(&'__call_a A, &'__call_b B, &'__original_0 C) -> &'__call_a A,
                &'__call_a A,
                &'__call_b B,
                &'__call_0 C,
            ) -> &'__call_a A
        );
        closure(quote!(fn f<'a, 'b: 'a>(a: &'a A, b: &'b B, c: &C) -> &'a A), expected.clone());
        closure(quote!(fn f<'a, 'b>(a: &'a A, b: &'b B, c: &C) -> &'a A where 'b: 'a), expected);
    }

    #[test]
    fn receivers_have_types() {
        closure(quote!(fn f(mut self)), quote!(Fn(&dyn Fn(Self), Self)));
        closure(
            quote!(fn f(self: Pin<&mut Self>) -> &u8),
            quote!(
                for<'__call_0> Fn(
                    &dyn for<'__original_0> Fn(Pin<&'__original_0 mut Self>) -> &'__original_0 u8,
                    Pin<&'__call_0 mut Self>,
                ) -> &'__call_0 u8
            ),
        );
    }

    #[test]
    fn refused_functions_are_left_unchanged() {
        for function in [
            quote!(
                fn f<T>(t: T) {}
            ),
            quote!(
                fn f<const N: usize>() {}
            ),
            quote!(
                fn f(t: impl A) {}
            ),
            quote!(
                fn f() -> impl A {}
            ),
            quote!(
                unsafe fn f() {}
            ),
            quote!(
                unsafe extern "C" fn f(n: u8, ...) {}
            ),
            quote!(
                fn f() -> ! {}
            ),
            quote!(
                fn f<'a>() -> &'a str {}
            ),
            quote!(
                fn f(a: &'outer str) {}
            ),
            quote!(
                fn f() -> Self {}
            ),
            quote!(
                #[target_feature(enable = "avx")]
                fn f() {}
            ),
            quote!(
                fn f(#[cfg(a)] a: u8) {}
            ),
        ] {
            let actual = attribute(quote!(replace), function.clone()).to_string();
            assert!(actual.starts_with(":: core :: compile_error"), "{actual}");
            assert!(actual.ends_with(&function.to_string()), "{actual}");
        }
    }
}
