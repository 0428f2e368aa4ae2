//! Whole expansions, compared as text, and the types of closures.

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
