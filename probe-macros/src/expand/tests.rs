//! Whole expansions, compared as text.

use super::*;

#[track_caller]
fn same(actual: &TokenStream, expected: &TokenStream) {
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
fn a_group_and_a_doc() {
    same(
        &attribute(
            quote!(group = "net", doc = "Says \"it\"."),
            quote!(
                fn f() {
                    probe!("x", y);
                }
            ),
        ),
        &quote! {
            fn f() {
                ::probe_runtime::__private::v1::function!(("f", "group=net\ndoc=Says \"it\".\n"));
                ::probe_runtime::__private::v1::expand_point! { ::probe_runtime, "net"; "x", y };
            }
        },
    );
    same(
        &point(quote!(::probe_runtime, "net"; "x", y)),
        &quote!(::probe_runtime::__private::v1::point! { ("x", "group=net\n"); "y" = value(&(y)) }),
    );
}

#[test]
fn methods() {
    let block = quote! {
        #[a]
        impl<T> Stack<T> where T: A {
            const N: u8 = 1;
            /// Doc.
            #[inline(never)]
            pub fn push(&mut self, x: T) {
                probe!("full", x);
                f(x); g(x)
            }
            fn len(&self) -> usize {
                #![allow(x)]
                self.len
            }
            #[probe(name = "other")]
            fn own() {}
            #[probe(skip)]
            const fn skipped() {}
            #[cfg(x)]
            #[unsafe(naked)]
            extern "C" fn bare() { naked_asm!("ret") }
        }
    };
    same(
        &attribute(quote!(group = "net", crate = k), block),
        &quote! {
            #[a]
            impl<T> Stack<T> where T: A {
                const N: u8 = 1;
                /// Doc.
                #[inline(never)]
                pub fn push(&mut self, x: T) {
                    k::__private::v1::function!(("Stack::push", "group=net\n"));
                    k::__private::v1::expand_point! { k, "net"; "full", x };
                    f(x); g(x)
                }
                fn len(&self) -> usize {
                    #![allow(x)]
                    k::__private::v1::skipped!(("Stack::len", "group=net\nskipped=small\n"));
                    self.len
                }
                fn own() {
                    k::__private::v1::function!(("Stack::other", "group=net\n"));
                }
                const fn skipped() {
                    k::__private::v1::skipped!(("Stack::skipped", "group=net\nskipped=asked\n"));
                }
                #[cfg(x)]
                #[unsafe(naked)]
                extern "C" fn bare() { naked_asm!("ret") }
            }
            const _: () = {
                #[cfg(x)]
                k::__private::v1::skipped!(("Stack::bare", "group=net\nskipped=naked\n"));
            };
        },
    );
}

#[test]
fn a_module_and_a_trait() {
    let block = quote! {
        pub mod m {
            fn free() { f(); g() }
            #[naked] extern "C" fn bare() {}
            #[cfg(x)]
            trait Shape {
                fn area(&self) -> u32;
                fn twice(&self) -> u32 { f(); 2 * self.area() }
            }
        }
    };
    same(
        &attribute(quote!(), block),
        &quote! {
            pub mod m {
                fn free() {
                    ::probe_runtime::__private::v1::function!(("free", ""));
                    f(); g()
                }
                #[naked] extern "C" fn bare() {}
                ::probe_runtime::__private::v1::skipped!(("bare", "skipped=naked\n"));
                #[cfg(x)]
                trait Shape {
                    fn area(&self) -> u32;
                    fn twice(&self) -> u32 {
                        ::probe_runtime::__private::v1::function!(("Shape::twice", ""));
                        f(); 2 * self.area()
                    }
                }
                #[cfg(x)]
                const _: () = {
                    ::probe_runtime::__private::v1::skipped!(("Shape::area", "skipped=bodiless\n"));
                };
            }
        },
    );
}

#[test]
fn skipped_alone() {
    for item in [
        quote!(
            struct S;
        ),
        quote!(
            fn f() {
                g()
            }
        ),
        quote!(
            const fn f() {}
        ),
    ] {
        same(&attribute(quote!(skip), item.clone()), &item);
    }
    same(
        &attribute(
            quote!(skip),
            quote!(
                fn f() {
                    probe!("x")
                }
            ),
        ),
        &quote!(
            fn f() {
                ::probe_runtime::point!("x")
            }
        ),
    );
}

#[test]
fn errors_leave_the_block() {
    let block = quote! {
        impl S {
            #[probe(nome = "x")]
            #[a]
            fn f() { probe!("x") }
            #[probe]
            const fn g() { probe!("x") }
        }
    };
    let actual = attribute(quote!(crate = k), block).to_string();
    assert_eq!(actual.matches("compile_error").count(), 2, "{actual}");
    let item = quote!(impl S { #[a] fn f() { k::point!("x") } const fn g() { () } });
    assert!(actual.ends_with(&item.to_string()), "{actual}");
}

#[test]
fn arguments() {
    same(
        &attribute(
            quote!(args(id, ?request, rows = rows.len())),
            quote!(
                fn f(id: u32, request: &R, rows: &[u8]) {
                    id
                }
            ),
        ),
        &quote! {
            fn f(id: u32, request: &R, rows: &[u8]) {
                ::probe_runtime::__private::v1::function!(("f", "") contained;
                    "id" = value(&(id)), "request" = debug(&(request)), "rows" = value(&(rows.len()))
                );
                id
            }
        },
    );
}

#[test]
fn all_arguments() {
    same(
        &attribute(
            quote!(args(*, b = 3)),
            quote!(
                fn f(&self, a: u32, b: u32, (c, S { d, .. }): (C, S), _e: u32, _: u32) {}
            ),
        ),
        &quote! {
            fn f(&self, a: u32, b: u32, (c, S { d, .. }): (C, S), _e: u32, _: u32) {
                ::probe_runtime::__private::v1::function!(("f", "");
                    "self" = any(&(self)), "a" = any(&(a)), "c" = any(&(c)), "d" = any(&(d)), "b" = value(&(3))
                );
            }
        },
    );
}

#[test]
fn results() {
    same(
        &attribute(
            quote!(ret),
            quote!(
                fn f(a: u32) -> Result<u32, E> {
                    #![allow(x)]
                    probe!("x");
                    g(a)?
                }
            ),
        ),
        &quote! {
            fn f(a: u32) -> Result<u32, E> {
                #![allow(x)]
                ::probe_runtime::__private::v1::returning! {
                    ("f", "");
                    entry(;);
                    exit(ret; "ret" = any(&(*ret)));
                    || -> Result<u32, E> {
                        ::probe_runtime::point!("x");
                        g(a)?
                    }
                }
            }
        },
    );
}

#[test]
fn arguments_and_chosen_fields_of_a_result() {
    same(
        &attribute(
            quote!(crate = k, args(b), ret(len = ret.len(), ?ret)),
            quote!(
                fn f(&mut self, a: A, b: B, c: u32) -> Option<impl C> {}
            ),
        ),
        &quote! {
            fn f(&mut self, a: A, b: B, c: u32) -> Option<impl C> {
                k::__private::v1::returning! {
                    ("f", "");
                    entry(; "b" = value(&(b)));
                    exit(ret contained; "len" = value(&(ret.len())), "ret" = debug(&(ret)));
                    || -> Option<_> {
                        k::__private::v1::moving!(b, a, self);
                    }
                }
            }
        },
    );
}

#[test]
fn a_result_of_no_type() {
    same(
        &attribute(
            quote!(ret),
            quote!(
                fn f(self, a: A) {}
            ),
        ),
        &quote! {
            fn f(self, a: A) {
                ::probe_runtime::__private::v1::returning! {
                    ("f", "");
                    entry(;);
                    exit(ret; "ret" = any(&(*ret)));
                    || -> () { ::probe_runtime::__private::v1::moving!(a, self); }
                };
            }
        },
    );
}
