//! A block with its probes: each function either as if it had `#[probe]`, or with a definition that
//! states why it has no probe.

use proc_macro2::{Group, Ident, TokenStream, TokenTree};
use quote::{quote, quote_spanned};

use super::function::{function, named};
use crate::check::{Part, Plan};
use crate::fallback;
use crate::model::{Function, Inside, Settings};
use crate::tokens::{self, krate_at, points};

/// Returns the block, and the items that must stand beside it.
pub(super) fn block(plan: Plan) -> TokenStream {
    let Plan { block, parts } = plan;
    let mut inside = TokenStream::new();
    let mut beside = TokenStream::new();
    for part in parts {
        match part {
            Part::Other(tokens) => inside.extend(tokens),
            Part::Block(plan) => inside.extend(self::block(plan)),
            Part::Function(subject, decision) => match (decision.verdict, subject) {
                (Ok(prepared), subject) => inside.extend(function(&decision.settings, &prepared, subject)),
                (Err(reason), Function { head, body: Ok(body), name, .. }) if has_statements(reason) => {
                    let body = skipping(&decision.settings, reason, &name, &body);
                    inside.extend(quote!(#head #body));
                }
                (Err(reason), subject) => {
                    let conditions = conditions(&subject.attributes);
                    let definition =
                        definition(&decision.settings, reason, &subject.name, &TokenStream::new());
                    inside.extend(fallback::function(subject, decision.settings.krate.as_ref()));
                    match block.inside {
                        Inside::Module => inside.extend(quote!(#(#conditions)* #definition)),
                        Inside::Methods => beside.extend(quote!(#(#conditions)* #definition)),
                    }
                }
            },
        }
    }
    let (head, body) = (&block.head, tokens::rebuilt(&block.body, inside));
    if beside.is_empty() {
        return quote!(#head #body);
    }
    // The definitions of a block's functions exist only if the block does.
    let conditions = conditions(&block.attributes);
    quote!(#head #body #(#conditions)* const _: () = { #beside };)
}

/// Returns whether such a function's body can hold a definition. The compiler allows only one macro
/// call in the body of a naked function.
fn has_statements(reason: &str) -> bool {
    !["naked", "bodiless"].contains(&reason)
}

/// Returns the body with the definition of the missing probe at its beginning.
fn skipping(settings: &Settings, reason: &str, function: &Ident, body: &Group) -> Group {
    let (inner_attributes, statements) = tokens::split_inner_attributes(body.stream());
    let statements = points(statements, settings);
    let definition = definition(settings, reason, function, &quote!(inside));
    tokens::rebuilt(body, quote!(#inner_attributes #definition #statements))
}

/// Returns the definition of a probe without sites, with its place.
fn definition(settings: &Settings, reason: &str, function: &Ident, place: &TokenStream) -> TokenStream {
    let krate = krate_at(settings.krate.as_ref(), function.span());
    let probe = named(settings, function, &format!("skipped={reason}\n"));
    quote_spanned!(function.span()=> #krate::__private::v1::skipped!(#probe #place);)
}

/// Returns the `#[cfg(…)]` among the attributes.
fn conditions(attributes: &[Group]) -> Vec<TokenStream> {
    let is_condition = |attribute: &&Group| matches!(attribute.stream().into_iter().next(), Some(TokenTree::Ident(word)) if word == "cfg");
    attributes.iter().filter(is_condition).map(|attribute| quote!(# #attribute)).collect()
}

/// Expansions of blocks and their arguments, as text.
#[cfg(test)]
mod tests {
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
}
