//! Expansions of captured arguments and results, as text.

use quote::quote;

use crate::expand::attribute;
use crate::expand::tests::same;

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

#[test]
fn arguments_and_the_result_of_a_future() {
    same(
        &attribute(
            quote!(args(id), ret, group = "net"),
            quote!(
                async fn f(id: u32) -> Result<u32, E> {
                    g(id).await
                }
            ),
        ),
        &quote! {
            fn f(id: u32) -> impl ::probe_runtime::__private::v1::Future<Output = Result<u32, E> > {
                ::probe_runtime::__private::v1::future! {
                    ("f", "group=net\n"); entry inside; exit(ret; "ret" = any(&(*ret)));
                    ::probe_runtime::__private::v1::Told;
                    async move {
                        if false {
                            return ::probe_runtime::__private::v1::returned::<Result<u32, E> >();
                        }
                        let id = id;
                        ::probe_runtime::__private::v1::entered!(("f", "group=net\n"); "id" = value(&(id)));
                        {
                            ::probe_runtime::__private::v1::unfrozen! {}
                            g(id).await
                        }
                    }
                }
            }
        },
    );
}

#[test]
fn arguments_and_the_result_of_a_block_at_the_end() {
    same(
        &attribute(
            quote!(args(id = id + 1), ret),
            quote!(
                fn f(id: u32) -> Pin<Box<dyn Future<Output = u32>>> {
                    Box::pin(async move { id })
                }
            ),
        ),
        &quote! {
            fn f(id: u32) -> Pin<Box<dyn Future<Output = u32>>> {
                Box::pin(::probe_runtime::__private::v1::future! {
                    ("f", ""); entry inside; exit(ret; "ret" = any(&(*ret)));
                    ::probe_runtime::__private::v1::Told;
                    async move {
                        if false {
                            return ::probe_runtime::__private::v1::returned::<u32>();
                        }
                        ::probe_runtime::__private::v1::unfrozen! {}
                        ::probe_runtime::__private::v1::entered!(("f", "") contained; "id" = value(&(id + 1)));
                        id
                    }
                })
            }
        },
    );
}
