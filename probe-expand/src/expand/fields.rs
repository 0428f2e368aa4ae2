//! Fields ▶ `"name" = how(&(expr))`, as the runtime's macros take them.

use proc_macro2::{Group, Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Expr, Type};

use crate::check::ExitCaptures;
use crate::model::{Field, Function, Style};
use crate::tokens::{self, string};

/// Returns the tokens after the name of a probe or of a result: `contained`, if panics of the
/// fields must be contained, and the fields.
pub(crate) fn list(fields: &[Field]) -> TokenStream {
    let contained = contained(fields);
    let fields = fields.iter().map(field);
    quote!(#contained; #(#fields),*)
}

/// Returns `contained` if a field may panic while it is evaluated.
fn contained(fields: &[Field]) -> Option<Ident> {
    let can_panic = fields.iter().any(|field| !is_plain(&field.expr));
    can_panic.then(|| Ident::new("contained", Span::mixed_site()))
}

/// Returns whether an expression only names a place or a literal. Any other may run the user's
/// code.
fn is_plain(expr: &Expr) -> bool {
    match expr {
        Expr::Path(path) => path.qself.is_none() && path.path.get_ident().is_some(),
        Expr::Group(group) => is_plain(&group.expr),
        Expr::Paren(paren) => is_plain(&paren.expr),
        Expr::Reference(reference) => is_plain(&reference.expr),
        // `Verbatim`: a variable of `args(*)`, or the result.
        Expr::Lit(_) | Expr::Verbatim(_) => true,
        _ => false,
    }
}

pub(crate) fn field(Field { name, style, expr }: &Field) -> TokenStream {
    let how = match style {
        Style::Value => "value",
        Style::Debug => "debug",
        Style::Display => "display",
        Style::Any => "any",
    };
    let how = Ident::new(how, name.span());
    let name = string(&name.unraw().to_string(), name.span());
    // The borrow is located at the expression, and so are errors about its type.
    let borrowed = quote_spanned!(expr.span()=> &(#expr));
    quote!(#name = #how(#borrowed))
}

/// Returns the fields of an exit, after the name that they use for a reference to the result.
pub(crate) fn exit(ExitCaptures { result, fields, .. }: &ExitCaptures) -> TokenStream {
    let list = list(fields);
    quote!(#result #list)
}

/// Returns the body of a function whose result is recorded, as a closure. `krate` is located at the
/// function's name.
pub(crate) fn closure(
    ExitCaptures { ty, moves, is_assigned, .. }: &ExitCaptures,
    body: &Group,
    statements: &TokenStream,
    krate: &TokenStream,
    function: &Function,
) -> TokenStream {
    let span = function.name.span();
    let moving =
        (!moves.is_empty()).then(|| quote_spanned!(span=> #krate::__private::v1::moving!(#(#moves),*);));
    let block = tokens::rebuilt(body, quote!(#moving #statements));
    // rustc's lint does not count the drop of a captured variable as a use, as it does for an
    // argument: a guard that is disarmed.
    let allow = (*is_assigned && !moves.is_empty()).then(|| quote!(#[allow(unused_assignments)]));
    quote!(#allow || -> #ty #block)
}

/// Returns whether the type is written as `()`.
pub(crate) fn is_unit(ty: &Type) -> bool {
    matches!(ty, Type::Tuple(tuple) if tuple.elems.is_empty())
}

/// Expansions of captured arguments and results, as text.
#[cfg(test)]
mod tests {
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
}
