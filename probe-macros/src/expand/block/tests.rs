//! Expansions of blocks and their arguments, as text.

use quote::quote;

use crate::expand::tests::same;
use crate::expand::{attribute, point};

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
fn macros_on_a_block_go_first() {
    let block = quote! { #[a] #[cfg(b)] pub unsafe impl A for S { fn f(&self) { probe!("x"); } } };
    let first = attribute(quote!(group = "net", only("f"), crate = k), block);
    same(
        &first,
        &quote! {
            #[a] #[cfg(b)]
            #[k::probe(__deferred, group = "net", only("f"), crate = k)]
            pub unsafe impl A for S { fn f(&self) { probe!("x"); } }
        },
    );
    let module = quote! { mod m { #[a] #[probe(doc = "d", only("f"))] impl A for S { fn f(&self) {} } } };
    same(
        &attribute(quote!(group = "net", all), module),
        &quote! {
            mod m {
                #[a]
                #[::probe_runtime::probe(__deferred, group = "net", doc = "d", all, only("f"))]
                impl A for S { fn f(&self) {} }
            }
        },
    );
}

#[test]
fn methods() {
    let block = quote! {
        #[allow(a)]
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
            #[allow(a)]
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
                    k::__private::v1::skipped!(("Stack::len", "group=net\nskipped=small\n") inside);
                    self.len
                }
                fn own() {
                    k::__private::v1::function!(("Stack::other", "group=net\n"));
                }
                const fn skipped() {
                    k::__private::v1::skipped!(("Stack::skipped", "group=net\nskipped=asked\n") inside);
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
