//! `args(…)` and `ret`, where settings meet the function: the fields of its probes, and values
//! that can't be recorded.

use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::{ToTokens, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::visit_mut::{self, VisitMut};
use syn::{Expr, FnArg, ReturnType, Signature, Type};

use super::fields::{MAX_FIELDS, too_many};
use super::{Captures, ExitCaptures};
use crate::asynchronous::{Wrapped, asynchronous};
use crate::model::{ArgsList, Errors, Field, Function, RetList, Settings, Style};
use crate::signature::{self, Variable, bare, moves, variables};

/// Returns the captures of the probes of `function`. Without `args` and `ret` they are empty,
/// without an error: the signature is not read.
pub(crate) fn captures(settings: &Settings, function: &Function, errors: &mut Errors) -> Captures {
    if settings.args.is_none() && settings.ret.is_none() {
        return Captures::default();
    }
    let signature = match signature::signature(function.head.clone()) {
        Ok(signature) => signature,
        Err(error) => {
            errors.at_span(
                error.span(),
                format!("`#[probe]` can't read this signature, which `args` and `ret` need: {error}"),
            );
            return Captures::default();
        }
    };
    let variables = variables(&signature);
    let wrapped = asynchronous(function).ok().flatten().map(|found| found.wrapped());
    if let (Some(args), Some(Wrapped::Call | Wrapped::Block { by_move: false })) = (&settings.args, wrapped) {
        errors.at(
            &args.key,
            "the entry of a future is its first poll, and there this one has no arguments any more; make the function an \
             `async fn`, or end it with an `async move` block, which takes them along",
        );
    }
    let is_future = wrapped.is_some();
    conditional(&signature, settings, is_future, errors);
    Captures {
        entry: settings
            .args
            .as_ref()
            .map_or_else(Vec::new, |args| entry(args, &variables, is_future, errors)),
        exit: settings.ret.as_ref().map(|ret| {
            let fields = result(ret, is_future, errors);
            let ty = if is_future { unit() } else { ty(function, &signature, errors) };
            let is_assigned = variables.iter().any(|variable| variable.is_mut);
            ExitCaptures { result: ret.key.clone(), fields, ty, moves: moves(&variables), is_assigned }
        }),
    }
}

/// Refuses an argument under a condition. It could be neither a field nor moved, since the macro
/// does not know which build this is.
fn conditional(signature: &Signature, settings: &Settings, is_future: bool, errors: &mut Errors) {
    let takes_all = settings.args.as_ref().is_some_and(|args| args.all);
    let may_move = settings.ret.is_some() && !is_future;
    if !takes_all && !may_move {
        return;
    }
    for input in &signature.inputs {
        let attributes = match input {
            FnArg::Receiver(receiver) => &receiver.attrs,
            FnArg::Typed(typed) => &typed.attrs,
        };
        for attribute in attributes.iter().filter(|it| it.path().is_ident("cfg")) {
            errors.at(
                attribute,
                "`args(*)` and `ret` take the same arguments in each build: put `cfg` on two functions instead, or name the \
                 fields that are always there, as in `args(id)`",
            );
        }
    }
}

/// Refuses a field with the name of the one that every event of a future has.
fn not_future(fields: &[Field], errors: &mut Errors) {
    if let Some(field) = fields.iter().find(|field| field.name == "future") {
        errors.at(
            &field.name,
            "every event of a future has a field `future` already; give this one another name",
        );
    }
}

fn entry(args: &ArgsList, variables: &[Variable], is_future: bool, errors: &mut Errors) -> Vec<Field> {
    let most = if is_future { MAX_FIELDS - 1 } else { MAX_FIELDS };
    let is_variable = |name: &Ident| variables.iter().any(|variable| variable.name == *name);
    for field in args.fields.iter().filter(|field| is_word(&field.expr, "ret")) {
        if !is_variable(&field.name) {
            errors.at(
                &field.expr,
                "the result isn't there yet where the arguments are recorded; write `#[probe(args(…), ret)]`",
            );
        }
    }
    let mut fields = Vec::new();
    if args.all {
        let is_given = |name: &Ident| args.fields.iter().any(|field| field.name.unraw() == name.unraw());
        // By an underscore, the user says that the argument is not of interest.
        let is_meant = |name: &Ident| !name.to_string().starts_with('_') && !is_given(name);
        for Variable { name, .. } in variables.iter().filter(|variable| is_meant(&variable.name)) {
            fields.push(Field { name: name.clone(), style: Style::Any, expr: word(name) });
        }
    }
    fields.extend(args.fields.iter().cloned());
    if is_future {
        not_future(&fields, errors);
    }
    if args.all && fields.len() > most && args.fields.len() <= most {
        errors.at(
            &args.key,
            format!(
                "{} has at most {most} fields, and `args(*)` makes {}; name those that matter",
                whose(is_future, "a probe"),
                fields.len()
            ),
        );
    } else {
        too_many(&fields, most, whose(is_future, "a probe"), errors);
    }
    fields
}

/// Names the subject of a limit. The probes of a future have its address as an additional field.
fn whose(is_future: bool, what: &'static str) -> &'static str {
    if is_future { "besides `future`, a probe" } else { what }
}

/// Returns the fields of the exit, besides `outcome`, which every exit with `ret` has.
fn result(ret: &RetList, is_future: bool, errors: &mut Errors) -> Vec<Field> {
    let fields = match &ret.fields {
        // The fields name a reference to the result.
        None => {
            let key = &ret.key;
            let expr = Expr::Verbatim(quote_spanned!(key.span()=> *#key));
            vec![Field { name: key.clone(), style: Style::Any, expr }]
        }
        Some(fields) => fields.clone(),
    };
    if let Some(field) = fields.iter().find(|field| field.name == "outcome") {
        errors.at(
            &field.name,
            "every exit with `ret` has a field `outcome` already; give this one another name",
        );
    }
    if is_future {
        not_future(&fields, errors);
    }
    let most = if is_future { MAX_FIELDS - 2 } else { MAX_FIELDS - 1 };
    too_many(&fields, most, whose(is_future, "an exit with `ret`"), errors);
    fields
}

/// Returns the result type of a function whose body becomes a closure.
fn ty(function: &Function, signature: &Signature, errors: &mut Errors) -> Type {
    let mut ty = match &signature.output {
        ReturnType::Default => unit(),
        ReturnType::Type(_, ty) => (**ty).clone(),
    };
    if matches!(bare(&ty), Type::Never(_)) {
        errors.at(
            &ty,
            "`ret` records a result, and a function that returns `!` has none; remove `ret`: the exit by a panic is recorded \
             without it",
        );
    }
    if let Some(word) = function.attributes.iter().find_map(track_caller) {
        errors.at(
            word,
            "`ret` doesn't work with `#[track_caller]`: the body becomes a closure, which would not see the caller's \
             location; remove one of the two",
        );
    }
    Nameable.visit_type_mut(&mut ty);
    ty
}

fn unit() -> Type {
    syn::parse_quote_spanned!(proc_macro2::Span::mixed_site()=> ())
}

/// Replaces types that can't be written outside of a signature by `_`: `impl Trait`, and macros
/// that may expand to it.
struct Nameable;

impl VisitMut for Nameable {
    fn visit_type_mut(&mut self, ty: &mut Type) {
        if matches!(ty, Type::ImplTrait(_) | Type::Macro(_)) {
            let underscore = quote_spanned!(ty.span()=> _);
            *ty = Type::Verbatim(underscore);
        } else {
            visit_mut::visit_type_mut(self, ty);
        }
    }
}

/// Returns the word `track_caller` of `#[track_caller]`.
fn track_caller(attribute: &proc_macro2::Group) -> Option<Ident> {
    match attribute.stream().into_iter().next() {
        Some(TokenTree::Ident(word)) if word == "track_caller" => Some(word),
        _ => None,
    }
}

/// Returns a variable as an expression.
fn word(name: &Ident) -> Expr {
    let tokens: TokenStream = name.to_token_stream();
    Expr::Verbatim(tokens)
}

fn is_word(expr: &Expr, word: &str) -> bool {
    matches!(expr, Expr::Path(path) if path.path.is_ident(word))
}

/// Captures that fit a function, and captures that don't.
#[cfg(test)]
mod tests {
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
}
