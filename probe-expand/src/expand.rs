//! Model ▶ tokens. An expansion names only the runtime's `__private::v1`, through the path that
//! the user can set: any other name may be shadowed.

mod block;
mod fields;
mod function;

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote};

use crate::check::Prepared;
use crate::model::{Errors, Item, Point, PointName};
use crate::tokens::{krate_at, string};
use crate::{args, asynchronous, check, fallback, parse};

/// Expands `#[probe(args)] item`.
pub fn attribute(args: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let settings = check::settings(&args::parse(args.clone()), &mut errors);
    let item = parse::item(item);
    check::fits(&settings, &item, &mut errors);
    check::alone(&item, &mut errors);
    if let Item::Block(block) = item {
        if errors.is_empty() && asynchronous::early(&settings, &block).is_some() {
            let krate = krate_at(settings.krate.as_ref(), Span::call_site());
            return asynchronous::deferred_block(&krate, args, &block);
        }
        let plan = check::block(block, &settings, &mut errors);
        return match errors.into_result() {
            Ok(()) => block::block(plan),
            Err(error) => fallback::plan(&error, plan, settings.krate.as_ref()),
        };
    }
    if settings.skip.is_some() {
        // On a single function, `skip` has no effect: there is no block that would add a probe.
        return match errors.into_result() {
            Ok(()) => fallback::item(item, settings.krate.as_ref()),
            Err(error) => fallback::attribute(&error, item, settings.krate.as_ref()),
        };
    }
    check::item(&item, &mut errors);
    let prepared = match &item {
        Item::Function(function) => check::prepared(&settings, function, &mut errors),
        Item::Block(_) | Item::Other { .. } => Prepared::default(),
    };
    match (errors.into_result(), item) {
        (Ok(()), Item::Function(function)) => function::function(&settings, &prepared, function),
        // The check has refused other items.
        (Ok(()), item) => fallback::item(item, settings.krate.as_ref()),
        (Err(error), item) => fallback::attribute(&error, item, settings.krate.as_ref()),
    }
}

/// Expands `__point!{ path; "name", field, … }` or, in a function of a group, `__point!{ path,
/// "group"; … }`.
pub fn point(input: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let point = parse::point(input, &mut errors);
    check::point(&point, &mut errors);
    if let Err(error) = errors.into_result() {
        return fallback::expression(&error);
    }
    let Point { krate, group, is_usdt, name, fields, future } = point;
    let mut notes = group.map_or_else(String::new, |group| format!("group={}\n", group.value()));
    let usdt = is_usdt.then(|| {
        notes += USDT_NOTE;
        quote!(, usdt)
    });
    let name = match name {
        PointName::Literal(name) => string(&name.value(), name.span()),
        // The check has refused these.
        PointName::Missing | PointName::Other(_) => return TokenStream::new(),
    };
    if let Some(future) = future {
        let future = asynchronous::reporting(future.into_token_stream(), &krate);
        return quote!(#krate::__private::v1::future! { (#name, #notes #usdt); #krate::__private::v1::Told; #future });
    }
    let fields = fields::list(&fields);
    quote!(#krate::__private::v1::point! { (#name, #notes #usdt) #fields })
}

/// The note of a definition whose sites have USDT probes beside them.
const USDT_NOTE: &str = "usdt=1\n";

/// Whole expansions, compared as text.
#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    pub(super) fn same(actual: &TokenStream, expected: &TokenStream) {
        assert_eq!(actual.to_string(), expected.to_string());
    }

    #[test]
    fn the_probe_is_the_first_statement() {
        let function = quote!(
            #[inline]
            pub fn f<T: A>(x: T) -> impl B + use<T> {
                x.y()
            }
        );
        same(
            &attribute(quote!(), function),
            &quote! {
                #[inline]
                pub fn f<T: A>(x: T) -> impl B + use<T> {
                    ::probe_runtime::__private::v1::function!(("f", ""));
                    x.y()
                }
            },
        );
    }

    #[test]
    fn name_and_crate() {
        same(
            &attribute(
                quote!(crate = crate::p, name = "a::b",),
                quote!(
                    fn f() {
                        probe!("x")
                    }
                ),
            ),
            &quote! {
                fn f() {
                    crate::p::__private::v1::function!(("a::b", ""));
                    crate::p::point!("x")
                }
            },
        );
    }

    #[test]
    fn raw_identifiers() {
        same(
            &attribute(
                quote!(),
                quote!(
                    fn r#fn() {}
                ),
            ),
            &quote!(
                fn r#fn() {
                    ::probe_runtime::__private::v1::function!(("fn", ""));
                }
            ),
        );
    }

    #[test]
    fn inner_attributes_stay_first() {
        let function = quote!(
            fn f() {
                #![allow(x)]
                #![allow(y)]
                !a
            }
        );
        same(
            &attribute(quote!(), function),
            &quote! {
                fn f() {
                    #![allow(x)]
                    #![allow(y)]
                    ::probe_runtime::__private::v1::function!(("f", ""));
                    !a
                }
            },
        );
    }

    #[test]
    fn points_in_the_body() {
        same(
            &attribute(
                quote!(),
                quote!(
                    fn f() {
                        if x != probe {
                            g(|| probe!("a", ?b));
                        }
                        foo::probe!("c");
                    }
                ),
            ),
            &quote! {
                fn f() {
                    ::probe_runtime::__private::v1::function!(("f", ""));
                    if x != probe { g(|| ::probe_runtime::point!("a", ?b)); }
                    foo::probe!("c");
                }
            },
        );
    }

    #[test]
    fn a_broken_body_is_kept() {
        same(
            &attribute(quote!(), quote!(fn f() { let = 1 1; })),
            &quote!(fn f() { ::probe_runtime::__private::v1::function!(("f", "")); let = 1 1; }),
        );
    }

    #[test]
    fn errors_leave_the_item() {
        let actual = attribute(
            quote!(nome = "a", crate = k),
            quote!(
                pub fn f() {
                    probe!("x")
                }
            ),
        )
        .to_string();
        assert!(actual.starts_with(":: core :: compile_error !"), "{actual}");
        assert!(actual.ends_with(r#"pub fn f () { k :: point ! ("x") }"#), "{actual}");
    }

    #[test]
    fn a_const_fn_loses_its_points() {
        let actual = attribute(
            quote!(),
            quote!(
                const fn f() {
                    probe!("x");
                }
            ),
        )
        .to_string();
        assert!(actual.ends_with("const fn f () { () ; }"), "{actual}");
    }

    #[test]
    fn other_items_come_back() {
        for item in [
            quote!(
                struct S {
                    a: u8,
                }
            ),
            quote!(
                fn f();
            ),
        ] {
            let actual = attribute(quote!(), item.clone()).to_string();
            assert_eq!(actual.matches("compile_error").count(), 1, "{actual}");
            assert!(actual.ends_with(&item.to_string()), "{actual}");
        }
    }

    #[test]
    fn a_point() {
        same(&point(quote!($crate; "n")), &quote!($crate::__private::v1::point! { ("n", ""); }));
        same(
            &point(quote!(::k; "n", a, ?b, %c, d = x + 1, e = ?f(y, z), r#type = %t,)),
            &quote! {
                ::k::__private::v1::point! { ("n", "") contained;
                    "a" = value(&(a)), "b" = debug(&(b)), "c" = display(&(c)),
                    "d" = value(&(x + 1)), "e" = debug(&(f(y, z))), "type" = display(&(t))
                }
            },
        );
    }

    #[test]
    fn errors_of_a_point_are_one_expression() {
        let actual = point(quote!(::k; NAME, a = b?)).to_string();
        assert_eq!(actual.matches("compile_error").count(), 2, "{actual}");
        assert!(actual.starts_with('{') && actual.ends_with('}'), "{actual}");
    }

    #[test]
    fn usdt_goes_with_the_name() {
        same(
            &attribute(
                quote!(usdt, args(x), group = "g"),
                quote!(
                    fn f(x: u32) {
                        probe!(usdt, "y", x);
                    }
                ),
            ),
            &quote! {
                fn f(x: u32) {
                    ::probe_runtime::__private::v1::function!(("f", "group=g\nusdt=1\n", usdt); "x" = value(&(x)));
                    ::probe_runtime::__private::v1::expand_point! { ::probe_runtime, "g"; usdt, "y", x };
                }
            },
        );
        same(
            &point(quote!(::k; usdt, "n", a)),
            &quote!(::k::__private::v1::point! { ("n", "usdt=1\n", usdt); "a" = value(&(a)) }),
        );
    }

    #[test]
    fn a_block_asks_for_all_of_its_functions() {
        let actual = attribute(
            quote!(usdt, all),
            quote!(
                impl S {
                    fn f() {}
                    const fn g() {}
                }
            ),
        )
        .to_string();
        assert!(actual.contains(r#"(("S::f" , "usdt=1\n" , usdt))"#), "{actual}");
        assert!(actual.contains(r#"(("S::g" , "skipped=const\n") inside)"#), "{actual}");
    }
}
