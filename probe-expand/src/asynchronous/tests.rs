//! Whole expansions, compared as text.

use proc_macro2::TokenStream;
use quote::quote;

use crate::expand::attribute;

#[track_caller]
fn becomes(args: TokenStream, function: TokenStream, expected: &TokenStream) {
    assert_eq!(attribute(args, function).to_string(), expected.to_string());
}

#[track_caller]
fn stays_ordinary(function: TokenStream) {
    let expanded = attribute(quote!(), function).to_string();
    assert!(expanded.contains("v1 :: function !"), "{expanded}");
}

#[test]
fn an_async_fn() {
    becomes(
        quote!(),
        quote! {
            /// Documented.
            pub(crate) async fn f<T: A>(mut x: T, (y, _): (u8, u8), &z: &u8) -> R<T>
            where
                T: B,
            {
                #![allow(unused)]
                probe!("p");
                x.y(y, z).await?
            }
        },
        &quote! {
            /// Documented.
            pub(crate) fn f<T: A>(
                x: T,
                __probe_arg1: (u8, u8),
                __probe_arg2: &u8
            ) -> impl ::probe_runtime::__private::v1::Future<Output = R<T> >
            where
                T: B,
            {
                #![allow(unused)]
                ::probe_runtime::__private::v1::future! {
                    ("f", "");
                    ::probe_runtime::__private::v1::Told;
                    async move {
                        if false {
                            return ::probe_runtime::__private::v1::returned::<R<T> >();
                        }
                        let mut x = x;
                        let __probe_arg1 = __probe_arg1;
                        let (y, _) = __probe_arg1;
                        let __probe_arg2 = __probe_arg2;
                        let &z = __probe_arg2;
                        {
                            ::probe_runtime::__private::v1::unfrozen! {}
                            ::probe_runtime::point!("p");
                            x.y(y, z).await?
                        }
                    }
                }
            }
        },
    );
}

#[test]
fn a_method() {
    becomes(
        quote!(name = "S::f", crate = k),
        quote!(
            async unsafe fn f(&mut self) {
                self.g()
            }
        ),
        &quote! {
            unsafe fn f(&mut self) -> impl k::__private::v1::Future<Output = ()> {
                k::__private::v1::future! {
                    ("S::f", "");
                    k::__private::v1::Told;
                    async move {
                        let _ = &self;
                        {
                            k::__private::v1::unfrozen! {}
                            self.g()
                        }
                    }
                }
            }
        },
    );
}

/// An argument under a condition is bound under that condition.
#[test]
fn attributes_of_arguments() {
    becomes(
        quote!(),
        quote! {
            #[must_use]
            #[must_use = "why"]
            async fn f(#[cfg(a)] x: u8, #[allow(b)] (y, z): (u8, u8)) {}
        },
        &quote! {
            #[must_use = "why"]
            fn f(
                #[cfg(a)] x: u8,
                #[allow(b)] __probe_arg1: (u8, u8)
            ) -> impl ::probe_runtime::__private::v1::Future<Output = ()> {
                ::probe_runtime::__private::v1::future! {
                    ("f", "");
                    ::probe_runtime::__private::v1::Told;
                    async move {
                        #[cfg(a)]
                        let x = x;
                        #[allow(b)]
                        let __probe_arg1 = __probe_arg1;
                        #[allow(b)]
                        let (y, z) = __probe_arg1;
                        { ::probe_runtime::__private::v1::unfrozen! {} }
                    }
                }
            }
        },
    );
}

#[test]
fn outputs() {
    let output_of = |output: TokenStream| {
        let expanded = attribute(quote!(), quote!(async fn f() -> #output {})).to_string();
        let anchors = expanded.contains("returned");
        (expanded, anchors)
    };
    let (never, anchors) = output_of(quote!(!));
    assert!(
        never.contains("< fn () -> ! as :: probe_runtime :: __private :: v1 :: Returning > :: Output"),
        "{never}"
    );
    assert!(!anchors);
    assert!(!output_of(quote!(impl Iterator<Item = u8>)).1);
    assert!(output_of(quote!(Vec<u8>)).1);
}

#[test]
fn an_impl_future() {
    let expected = quote! {
        fn f() -> impl Future<Output = u8> + Send {
            let x = 1;
            ::probe_runtime::__private::v1::future! {
                ("f", "");
                ::probe_runtime::__private::v1::Told;
                async move {
                    if false {
                        return ::probe_runtime::__private::v1::returned::<u8>();
                    }
                    ::probe_runtime::__private::v1::unfrozen! {}
                    x
                }
            }
        }
    };
    let function = quote! {
        fn f() -> impl Future<Output = u8> + Send {
            let x = 1;
            async move { x }
        }
    };
    becomes(quote!(), function, &expected);
    for body in [quote!(ready(1)), quote!(return ready(1);), quote!(!async {}), quote!(async {}.boxed())] {
        becomes(
            quote!(),
            quote!(fn f() -> impl std::future::Future<Output = u8> { #body }),
            &quote! {
                fn f() -> impl std::future::Future<Output = u8> {
                    ::probe_runtime::__private::v1::future! {
                        ("f", "");
                        ::probe_runtime::__private::v1::Noted::Fresh;
                        ::probe_runtime::__private::v1::call_once::<_, u8>(move || { #body })
                    }
                }
            },
        );
    }
}

/// Arguments that may have to be dropped, last to first.
#[test]
fn a_call_takes_all_arguments() {
    becomes(
        quote!(),
        quote!(
            fn f(a: A, n: u32, (mut b, c): (B, C), #[cfg(x)] d: D, e: &E) -> impl Future {
                ready(())
            }
        ),
        &quote!(
            fn f(a: A, n: u32, (mut b, c): (B, C), #[cfg(x)] d: D, e: &E) -> impl Future {
                ::probe_runtime::__private::v1::future! {
                    ("f", "");
                    ::probe_runtime::__private::v1::Noted::Fresh;
                    ::probe_runtime::__private::v1::call_once::<_, _>(
                        #[allow(unused_assignments)]
                        move || {
                            ::probe_runtime::__private::v1::moving!(c, b, a);
                            ready(())
                        }
                    )
                }
            }
        ),
    );
}

#[test]
fn a_pinned_box() {
    becomes(
        quote!(),
        quote! {
            fn f<'a>(&'a self) -> Pin<Box<dyn Future<Output = u8> + Send + 'a>> {
                Box::pin(async move { 1 })
            }
        },
        &quote! {
            fn f<'a>(&'a self) -> Pin<Box<dyn Future<Output = u8> + Send + 'a>> {
                Box::pin(::probe_runtime::__private::v1::future! {
                    ("f", "");
                    ::probe_runtime::__private::v1::Told;
                    async move {
                        if false {
                            return ::probe_runtime::__private::v1::returned::<u8>();
                        }
                        ::probe_runtime::__private::v1::unfrozen! {}
                        1
                    }
                })
            }
        },
    );
    stays_ordinary(quote!(
        fn f() -> Pin<Box<dyn Future<Output = u8>>> {
            g()
        }
    ));
    stays_ordinary(quote!(
        fn f() -> Pin<Box<dyn Future<Output = u8>>> {
            other::pin(async {})
        }
    ));
}

#[test]
fn functions_that_take_a_future_are_ordinary() {
    stays_ordinary(quote!(
        fn f(x: impl Future<Output = u8>) -> u8 {
            1
        }
    ));
    stays_ordinary(quote!(
        fn f<F: Future>() -> Wrapper<F> {
            async {}
        }
    ));
}

/// The wrapper would not implement the other trait.
#[test]
fn results_with_further_traits_are_ordinary() {
    let expanded = |result: TokenStream| {
        attribute(quote!(), quote!(fn f<'a>(x: &'a u8) -> #result { async {} })).to_string()
    };
    for kept in [
        quote!(impl Future<Output = ()> + Send + Sync + Unpin + Clone + Sized),
        quote!(impl 'a + std::future::Future + std::panic::UnwindSafe + std::panic::RefUnwindSafe),
        quote!(impl Future + use<'a>),
    ] {
        assert!(expanded(kept.clone()).contains("v1 :: future !"), "{kept}");
    }
    for more in [
        quote!(impl Future<Output = ()> + Debug),
        quote!(impl Future + futures::FusedFuture + Send),
        quote!(impl Future + for<'b> Into<&'b u8>),
    ] {
        assert!(expanded(more.clone()).contains("v1 :: function !"), "{more}");
    }
}

#[test]
fn other_macros_go_first() {
    becomes(
        quote!(name = "n"),
        quote! {
            #[inline]
            #[tokio::main(flavor = "current_thread")]
            pub async fn main() {}
        },
        &quote! {
            #[inline]
            #[tokio::main(flavor = "current_thread")]
            #[::probe_runtime::probe(__deferred, name = "n")]
            pub async fn main() {}
        },
    );
    becomes(
        quote!(group = "net", crate = k),
        quote! {
            impl Server {
                #[instrument]
                async fn accept(&self) {}
            }
        },
        &quote! {
            impl Server {
                #[instrument]
                #[k::probe(__deferred, name = "Server::accept", group = "net", crate = k)]
                async fn accept(&self) {}
            }
        },
    );
    let again = attribute(
        quote!(__deferred),
        quote!(
            #[helper::of_another]
            async fn f() {}
        ),
    );
    assert!(again.to_string().contains("v1 :: future !"), "{again}");
}

#[test]
fn a_future_in_a_point() {
    let expanded = crate::expand::point(quote!(::k; "p", async move { x.await },));
    assert_eq!(
        expanded.to_string(),
        quote!(::k::__private::v1::future! {
            ("p", "");
            ::k::__private::v1::Told;
            async move {
                ::k::__private::v1::unfrozen! {}
                x.await
            }
        })
        .to_string()
    );
}
