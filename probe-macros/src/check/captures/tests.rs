//! Captures that fit a function, and captures that don't.

use proc_macro2::TokenStream;
use quote::quote;

use crate::check::tests::{messages, one_line_with};
use crate::check::{MAX_FIELDS, prepared, settings};
use crate::model::{Errors, Item};
use crate::{args, parse};

/// Returns the errors of a function's captures.
fn of_captures(given: TokenStream, function: TokenStream) -> String {
    let mut errors = Errors::default();
    let settings = settings(&args::parse(given), &mut errors);
    let Item::Function(function) = parse::item(function) else { panic!("not a function") };
    let captures = prepared(&settings, &function, &mut errors).captures;
    assert_eq!(captures.exit.is_some(), settings.ret.is_some());
    messages(errors)
}

#[test]
fn captures_that_fit_their_function() {
    for (settings, function) in [
        (
            quote!(args(*), ret),
            quote!(
                pub(crate) unsafe extern "C" fn f<const N: usize>(a: [u8; N]) -> u8
                where
                    u8: Copy,
                {
                }
            ),
        ),
        (quote!(args(self, ?a)), quote!(default fn f(self: Pin<&mut Self>, ref a @ (b, _): A) {})),
        (
            quote!(args(ret)),
            quote!(
                fn f(ret: u32) {}
            ),
        ),
        (
            quote!(args(a = ret.x)),
            quote!(
                fn f() {}
            ),
        ),
        (
            quote!(ret),
            quote!(
                #[inline]
                fn f() -> impl Fn() -> ! {}
            ),
        ),
        // `args(*)` records only named arguments, and here there is none.
        (
            quote!(args(*)),
            quote!(
                fn f(_a: u8, _: u8) {}
            ),
        ),
        // Without captures the signature is not read: rustc reports the error.
        (quote!(), quote!(fn f(a) {})),
    ] {
        assert_eq!(of_captures(settings, function), "");
    }
}

#[test]
fn captures_that_do_not() {
    let many = |count| {
        let names = (0..count).map(|n| quote::format_ident!("f{n}"));
        quote!(fn f(#(#names: u8),*) -> u8 {})
    };
    let fields = |count| (0..count).map(|n| quote::format_ident!("f{n}"));
    assert_eq!(of_captures(quote!(args(*), ret), many(MAX_FIELDS)), "");
    let (most, more) = (fields(MAX_FIELDS - 1), fields(MAX_FIELDS));
    assert_eq!(of_captures(quote!(ret(#(#most = 1),*)), many(1)), "");
    for (settings, function, part) in [
        (
            quote!(args(ret)),
            quote!(
                fn f(a: u8) {}
            ),
            "the result isn't there yet",
        ),
        (quote!(args(*)), many(MAX_FIELDS + 1), "at most 32 fields, and `args(*)` makes 33"),
        (quote!(ret(#(#more = 1),*)), many(1), "at most 31 fields, and this one has 32"),
        (quote!(ret(outcome = 1)), many(1), "a field `outcome` already"),
        (
            quote!(ret),
            quote!(
                fn f() -> ! {}
            ),
            "a function that returns `!` has none",
        ),
        (
            quote!(ret),
            quote!(
                #[track_caller]
                fn f() {}
            ),
            "doesn't work with `#[track_caller]`",
        ),
        (quote!(args(*)), quote!(fn f(a) {}), "can't read this signature"),
    ] {
        one_line_with(&of_captures(settings, function), part);
    }
}

#[test]
fn captures_of_futures() {
    for function in [
        quote!(
            fn f(a: u8) -> impl Future<Output = u8> {
                async { 1 }
            }
        ),
        quote!(
            fn f(a: u8) -> impl Future<Output = u8> {
                ready(a)
            }
        ),
    ] {
        one_line_with(&of_captures(quote!(args(a)), function.clone()), "its first poll");
        assert_eq!(of_captures(quote!(ret), function), "");
    }
    for function in [
        quote!(
            fn f(a: u8) -> impl Future<Output = u8> {
                async move { a }
            }
        ),
        quote!(
            fn f(a: u8) -> Pin<Box<dyn Future<Output = u8>>> {
                Box::pin(async move { a })
            }
        ),
        // The probe is on the call.
        quote!(
            fn f(a: u8) -> Pin<Box<dyn Future<Output = u8>>> {
                other(a)
            }
        ),
        quote!(
            #[track_caller]
            async fn f(a: u8) -> ! {
                pending().await
            }
        ),
    ] {
        assert_eq!(of_captures(quote!(args(a), ret), function), "");
    }
    let function = quote!(
        async fn f(future: u8) {}
    );
    one_line_with(&of_captures(quote!(args(*)), function.clone()), "has a field `future` already");
    one_line_with(&of_captures(quote!(ret(future = 1)), function), "has a field `future` already");
}
