//! A function's signature: its parts, and the variables of its arguments. Only functions with
//! fields, futures or replacements are parsed.

use proc_macro2::{Ident, TokenStream};
use syn::parse::{ParseStream, Parser};
use syn::{Attribute, FnArg, Pat, PatIdent, ReceiverKind, Signature, Type, Visibility};

/// Parses all of a function's head.
pub(crate) fn head(head: TokenStream) -> syn::Result<(Vec<Attribute>, Visibility, Signature)> {
    let parser = |input: ParseStream| Ok((Attribute::parse_outer(input)?, input.parse()?, input.parse()?));
    parser.parse2(head)
}

/// Parses the signature at the end of a function's head.
pub(crate) fn signature(head: TokenStream) -> syn::Result<Signature> {
    let parser = |input: ParseStream| {
        Attribute::parse_outer(input)?;
        input.parse::<Visibility>()?;
        if input.fork().parse::<Ident>().is_ok_and(|word| word == "default") {
            input.parse::<Ident>()?;
        }
        input.parse()
    };
    parser.parse2(head)
}

/// A variable that an argument is bound to.
pub(crate) struct Variable {
    pub(crate) name: Ident,
    ownership: Ownership,
    /// Whether it is a `mut` variable, which may be assigned to.
    pub(crate) is_mut: bool,
}

/// The way a variable holds its value, as far as the text of its type tells.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ownership {
    /// A `&mut`.
    Mutable,
    /// A value that may have to be dropped.
    Owned,
    /// `self` or `mut self`.
    OwnedSelf,
    /// A value that never has to be dropped, and is copied when it is moved.
    Copied,
}

/// Returns the variables that a function's arguments are bound to.
pub(crate) fn variables(signature: &Signature) -> Vec<Variable> {
    let mut found = Vec::new();
    for input in &signature.inputs {
        match input {
            FnArg::Receiver(receiver) => {
                let ownership = match &receiver.kind {
                    ReceiverKind::Reference(_, _, None) => Ownership::Copied,
                    ReceiverKind::Reference(_, _, Some(_)) => Ownership::Mutable,
                    ReceiverKind::Typed(_, ty) => ownership(ty, true),
                    _ => Ownership::OwnedSelf,
                };
                let is_mut =
                    !matches!(receiver.kind, ReceiverKind::Reference(..)) && receiver.mutability.is_some();
                found.push(Variable { name: receiver.self_token.into(), ownership, is_mut });
            }
            FnArg::Typed(typed) => bound(&typed.pat, true, &mut |ident, is_all| {
                let (name, is_mut) = (ident.ident.clone(), ident.mutability.is_some());
                found.push(Variable { name, ownership: ownership(&typed.ty, is_all), is_mut });
            }),
        }
    }
    found
}

/// Returns how a variable holds its value. `is_all` says that it is the whole value of `ty`, not a
/// part.
fn ownership(ty: &Type, is_all: bool) -> Ownership {
    const COPIED: [&str; 16] = [
        "bool", "char", "f32", "f64", "i128", "i16", "i32", "i64", "i8", "isize", "u128", "u16", "u32",
        "u64", "u8", "usize",
    ];
    match bare(ty) {
        Type::Reference(reference) if reference.mutability.is_some() && is_all => Ownership::Mutable,
        Type::Reference(_) | Type::Ptr(_) | Type::FnPtr(_) => Ownership::Copied,
        Type::Path(path) if COPIED.iter().any(|name| path.path.is_ident(name)) => Ownership::Copied,
        _ => Ownership::Owned,
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

/// Returns the variables that the closure around the body takes by value, even if the body only
/// borrows them.
/// - `&mut` variables: up to the edition 2018, a borrow through a variable that is itself borrowed
///   can't be returned.
/// - Several owned variables: otherwise a variable that only one way out moves would be dropped
///   before variables that are never moved, whatever their order. The closure drops its captured
///   variables in the order in which it mentions them. Arguments are dropped in reverse order.
pub(crate) fn moves(variables: &[Variable]) -> Vec<Ident> {
    let is_owned =
        |variable: &&Variable| matches!(variable.ownership, Ownership::Owned | Ownership::OwnedSelf);
    let several = variables.iter().filter(is_owned).count() > 1;
    let is_moved = |variable: &&Variable| match variable.ownership {
        Ownership::Mutable | Ownership::OwnedSelf => true,
        Ownership::Owned => several,
        Ownership::Copied => false,
    };
    variables.iter().rev().filter(is_moved).map(|variable| variable.name.clone()).collect()
}

/// Returns the variables that the closure around a call that returns a future mentions first: all
/// that may have to be dropped, in the order that [`moves`] describes. So neither the body's order
/// of use nor unused variables matter. A variable under a condition can't be named. The `bool`
/// tells whether the body may assign to an argument.
pub(crate) fn drop_order(signature: &Signature) -> (Vec<Ident>, bool) {
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
    variables.retain(|variable| variable.ownership != Ownership::Copied);
    let is_assigned = variables.iter().any(|variable| variable.is_mut);
    (variables.into_iter().rev().map(|variable| variable.name).collect(), is_assigned)
}

/// Returns a type without parentheses and groups around it.
pub(crate) fn bare(ty: &Type) -> &Type {
    match ty {
        Type::Group(group) => bare(&group.elem),
        Type::Paren(paren) => bare(&paren.elem),
        ty => ty,
    }
}
