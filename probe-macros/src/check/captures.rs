//! `args(…)` and `ret`, where settings meet the function: the fields of its probes, and values
//! that can't be recorded.

use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::{ToTokens, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::visit_mut::{self, VisitMut};
use syn::{Attribute, Expr, FnArg, Pat, PatIdent, ReceiverKind, ReturnType, Signature, Type};

use super::{MAX_FIELDS, too_many};
use crate::asynchronous::{Wrapped, asynchronous};
use crate::errors::Errors;
use crate::model::{ArgsList, Captures, ExitCaptures, Field, Function, RetList, Settings, Style};
use crate::parse;

/// Returns the captures of the probes of `function`. Without `args` and `ret` they are empty,
/// without an error: the signature is not read.
pub(crate) fn captures(settings: &Settings, function: &Function, errors: &mut Errors) -> Captures {
    if settings.args.is_none() && settings.ret.is_none() {
        return Captures::default();
    }
    let signature = match parse::signature(function.head.clone()) {
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

/// A variable that an argument is bound to.
struct Variable {
    name: Ident,
    hold: Hold,
    /// Whether it is a `mut` variable, which may be assigned to.
    is_mut: bool,
}

/// The way a variable holds its value, as far as the text of its type tells.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Hold {
    /// A `&mut`.
    Mutable,
    /// A value that may have to be dropped.
    Owned,
    /// `self` or `mut self`.
    OwnedSelf,
    /// A value that never has to be dropped, and is copied when it is moved.
    Copied,
}

fn variables(signature: &Signature) -> Vec<Variable> {
    let mut found = Vec::new();
    for input in &signature.inputs {
        match input {
            FnArg::Receiver(receiver) => {
                let hold = match &receiver.kind {
                    ReceiverKind::Reference(_, _, None) => Hold::Copied,
                    ReceiverKind::Reference(_, _, Some(_)) => Hold::Mutable,
                    ReceiverKind::Typed(_, ty) => hold(ty, true),
                    _ => Hold::OwnedSelf,
                };
                let is_mut =
                    !matches!(receiver.kind, ReceiverKind::Reference(..)) && receiver.mutability.is_some();
                found.push(Variable { name: receiver.self_token.into(), hold, is_mut });
            }
            FnArg::Typed(typed) => bound(&typed.pat, true, &mut |ident, is_all| {
                let (name, is_mut) = (ident.ident.clone(), ident.mutability.is_some());
                found.push(Variable { name, hold: hold(&typed.ty, is_all), is_mut });
            }),
        }
    }
    found
}

/// Returns how a variable holds its value. `is_all` says that it is the whole value of `ty`, not a
/// part.
fn hold(ty: &Type, is_all: bool) -> Hold {
    const COPIED: [&str; 16] = [
        "bool", "char", "f32", "f64", "i128", "i16", "i32", "i64", "i8", "isize", "u128", "u16", "u32",
        "u64", "u8", "usize",
    ];
    match bare(ty) {
        Type::Reference(reference) if reference.mutability.is_some() && is_all => Hold::Mutable,
        Type::Reference(_) | Type::Ptr(_) | Type::FnPtr(_) => Hold::Copied,
        Type::Path(path) if COPIED.iter().any(|name| path.path.is_ident(name)) => Hold::Copied,
        _ => Hold::Owned,
    }
}

/// Calls `each` for every variable in a pattern, and tells whether it is the whole value.
fn bound(pattern: &Pat, is_all: bool, each: &mut dyn FnMut(&PatIdent, bool)) {
    let mut part = |pattern: &Pat| bound(pattern, false, each);
    match pattern {
        Pat::Ident(ident) => {
            each(ident, is_all && ident.by_ref.is_none());
            if let Some((_, pattern)) = &ident.subpat {
                bound(pattern, false, each);
            }
        }
        Pat::Paren(paren) => bound(&paren.pat, is_all, each),
        Pat::Type(typed) => bound(&typed.pat, is_all, each),
        Pat::Reference(reference) => part(&reference.pat),
        Pat::Tuple(tuple) => tuple.elems.iter().for_each(part),
        Pat::TupleStruct(tuple) => tuple.elems.iter().for_each(part),
        Pat::Slice(slice) => slice.elems.iter().for_each(part),
        Pat::Struct(structure) => structure.fields.iter().for_each(|field| part(&field.pat)),
        // All alternatives bind the same variables.
        Pat::Or(or) => or.cases.first().into_iter().for_each(part),
        _ => {}
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

/// Returns the variables that the closure around the body takes by value, even if the body only
/// borrows them.
/// - `&mut` variables: up to the edition 2018, a borrow through a variable that is itself borrowed
///   can't be returned.
/// - Several owned variables: otherwise a variable that only one way out moves would be dropped
///   before variables that are never moved, whatever their order. The closure drops its captured
///   variables in the order in which it mentions them. Arguments are dropped in reverse order.
fn moves(variables: &[Variable]) -> Vec<Ident> {
    let is_owned = |variable: &&Variable| matches!(variable.hold, Hold::Owned | Hold::OwnedSelf);
    let several = variables.iter().filter(is_owned).count() > 1;
    let is_moved = |variable: &&Variable| match variable.hold {
        Hold::Mutable | Hold::OwnedSelf => true,
        Hold::Owned => several,
        Hold::Copied => false,
    };
    variables.iter().rev().filter(is_moved).map(|variable| variable.name.clone()).collect()
}

/// Returns the variables that the closure around a call that returns a future mentions first: all
/// that may have to be dropped, in the order that [`moves`] describes. So neither the body's order
/// of use nor unused variables matter. A variable under a condition can't be named. The `bool`
/// tells whether the body may assign to an argument.
pub(crate) fn dropped(signature: &Signature) -> (Vec<Ident>, bool) {
    let mut signature = signature.clone();
    let is_conditional = |attributes: &[Attribute]| attributes.iter().any(|it| it.path().is_ident("cfg"));
    signature.inputs = signature
        .inputs
        .into_iter()
        .filter(|input| match input {
            FnArg::Receiver(receiver) => !is_conditional(&receiver.attrs),
            FnArg::Typed(typed) => !is_conditional(&typed.attrs),
        })
        .collect();
    let mut variables = variables(&signature);
    variables.retain(|variable| variable.hold != Hold::Copied);
    let is_assigned = variables.iter().any(|variable| variable.is_mut);
    (variables.into_iter().rev().map(|variable| variable.name).collect(), is_assigned)
}

/// Returns a type without parentheses and groups around it.
fn bare(ty: &Type) -> &Type {
    match ty {
        Type::Group(group) => bare(&group.elem),
        Type::Paren(paren) => bare(&paren.elem),
        ty => ty,
    }
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

#[cfg(test)]
mod tests;
