//! The lifetimes of a signature, all with a name, so that a closure's type can be written from it.
//!
//! In `fn f(a: &A, b: &B<'_>) -> …` each elided lifetime gets a name: `fn f<'__0, '__1>(a: &'__0
//! A, b: &B<'__1>)`. The closure's type has each of them twice, once for its own call and once for
//! calls of `original`: `for<'__call_0> Fn(&dyn for<'__original_0> Fn(&'__original_0 A), &'__call_0
//! A)`. A `for` can't bind a lifetime that is part of a bound or of a `where` clause; `original`
//! then takes the lifetime of the call.

use std::collections::BTreeSet;

use proc_macro2::Span;
use syn::visit::{self, Visit};
use syn::visit_mut::{self, VisitMut};
use syn::{
    BoundLifetimes, FnArg, GenericParam, Lifetime, LifetimeParam, ParenthesizedGenericArguments,
    ReceiverKind, ReturnType, Signature, Type, TypeFnPtr, TypeReference, WherePredicate,
};

use crate::model::Errors;

/// The lifetimes of a function's signature.
pub(super) struct Lifetimes {
    /// Lifetimes in the arguments, in the order of their appearance; elided ones have their new
    /// names.
    used: Vec<Lifetime>,
    /// New names of the elided lifetimes.
    pub(super) elided: Vec<Lifetime>,
    /// Lifetimes that no `for` can bind.
    bounded: BTreeSet<String>,
    /// The lifetime that an elided one in the result stands for.
    of_result: Option<Lifetime>,
}

/// The binder of a copy of a lifetime.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Binder {
    /// A call of the closure.
    Call,
    /// A call of `original` in the closure.
    Original,
}

impl Lifetimes {
    /// Reads a signature. Adds an error for each lifetime that a closure's type can't have.
    pub(super) fn of(signature: &Signature, errors: &mut Errors) -> Self {
        let declared: BTreeSet<String> =
            (signature.generics.lifetimes()).map(|parameter| parameter.lifetime.ident.to_string()).collect();
        let mut this =
            Self { used: Vec::new(), elided: Vec::new(), bounded: bounded(signature), of_result: None };
        let mut namer = Namer::default();
        let mut of_receiver = None;
        for argument in &signature.inputs {
            let mut ty = type_of(argument);
            namer.visit_type_mut(&mut ty);
            if matches!(argument, FnArg::Receiver(_)) {
                of_receiver = found(&ty).into_iter().next();
            }
            for lifetime in found(&ty) {
                if !this.used.contains(&lifetime) {
                    this.used.push(lifetime);
                }
            }
        }
        this.elided = namer.elided;
        let only = (this.used.len() == 1).then(|| this.used[0].clone());
        this.of_result = of_receiver.or(only);
        this.used.retain(|lifetime| lifetime.ident != "static");
        let is_elided = |lifetime: &Lifetime| this.elided.contains(lifetime);
        let foreign =
            this.used.iter().filter(|it| !is_elided(it) && !declared.contains(&it.ident.to_string()));
        let mut refused: Vec<Lifetime> = foreign.cloned().collect();
        let result = match &signature.output {
            ReturnType::Default => Vec::new(),
            ReturnType::Type(_, ty) => found(ty),
        };
        for lifetime in result.into_iter().filter(|it| it.ident != "static" && it.ident != "_") {
            if !declared.contains(&lifetime.ident.to_string()) {
                refused.push(lifetime);
            } else if !this.used.contains(&lifetime) {
                errors.at(
                    &lifetime,
                    format!("a function whose result has a lifetime that no argument has can't be replaced; write `'static` \
                             for `{lifetime}`"),
                );
            }
        }
        for lifetime in refused {
            errors.at(
                &lifetime,
                format!("a function of an `impl` with lifetimes can't be replaced: one closure would have to be right for each \
                         `{lifetime}`; replace a free function, and give it the lifetime"),
            );
        }
        this
    }

    /// Returns the types of the arguments and of the result, with all lifetimes named.
    pub(super) fn named(&self, signature: &Signature) -> (Vec<Type>, Option<Type>) {
        let mut namer = Namer::default();
        let mut types: Vec<_> = signature.inputs.iter().map(type_of).collect();
        types.iter_mut().for_each(|ty| namer.visit_type_mut(ty));
        let result = match &signature.output {
            ReturnType::Default => None,
            ReturnType::Type(_, ty) => {
                let mut ty = (**ty).clone();
                if let Some(lifetime) = &self.of_result {
                    Namer { given: Some(lifetime.clone()), ..Namer::default() }.visit_type_mut(&mut ty);
                }
                Some(ty)
            }
        };
        (types, result)
    }

    /// Returns the lifetimes that a `for<…>` of this binder binds.
    pub(super) fn bound_by(&self, binder: Binder) -> Vec<Lifetime> {
        let is_bound = |it: &&Lifetime| binder == Binder::Call || !self.is_bounded(it);
        self.used.iter().filter(is_bound).map(|it| self.renamed(it, binder)).collect()
    }

    /// Returns a named type as it is in a `for<…>` of this binder.
    pub(super) fn within(&self, binder: Binder, ty: &Type) -> Type {
        let mut ty = ty.clone();
        Renamer { lifetimes: self, binder }.visit_type_mut(&mut ty);
        ty
    }

    /// Returns whether a predicate mentions lifetimes.
    pub(super) fn are_in(predicate: &WherePredicate) -> bool {
        let mut finder = Finder::default();
        finder.visit_where_predicate(predicate);
        !finder.found.is_empty()
    }

    fn is_bounded(&self, lifetime: &Lifetime) -> bool {
        self.bounded.contains(&lifetime.ident.to_string())
    }

    fn renamed(&self, lifetime: &Lifetime, binder: Binder) -> Lifetime {
        let name = lifetime.ident.to_string();
        let name = name.trim_start_matches("__");
        let name = if binder == Binder::Call || self.is_bounded(lifetime) {
            format!("'__call_{name}")
        } else {
            format!("'__original_{name}")
        };
        Lifetime::new(&name, lifetime.span())
    }
}

/// Returns an argument's type; for a receiver, the type that it would have as an ordinary argument.
fn type_of(argument: &FnArg) -> Type {
    match argument {
        FnArg::Typed(typed) => (*typed.ty).clone(),
        FnArg::Receiver(receiver) => {
            let own = syn::Ident::new("Self", receiver.self_token.span);
            match &receiver.kind {
                ReceiverKind::Typed(_, ty) => (**ty).clone(),
                ReceiverKind::Reference(and, lifetime, mutability) => {
                    syn::parse_quote!(#and #lifetime #mutability #own)
                }
                _ => syn::parse_quote!(#own),
            }
        }
    }
}

/// Returns the lifetimes on either side of a bound, and all others in a `where` clause.
fn bounded(signature: &Signature) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for parameter in &signature.generics.params {
        if let GenericParam::Lifetime(LifetimeParam { lifetime, bounds, .. }) = parameter
            && !bounds.is_empty()
        {
            all.extend(bounds.iter().chain([lifetime]).map(|lifetime| lifetime.ident.to_string()));
        }
    }
    for predicate in signature.generics.where_clause.iter().flat_map(|clause| &clause.predicates) {
        let mut finder = Finder::default();
        finder.visit_where_predicate(predicate);
        all.extend(finder.found.iter().map(|lifetime| lifetime.ident.to_string()));
    }
    all
}

/// Returns the lifetimes that a type names, except for those that it binds itself.
fn found(ty: &Type) -> Vec<Lifetime> {
    let mut finder = Finder::default();
    finder.visit_type(ty);
    finder.found.retain(|lifetime| !finder.bound.contains(lifetime));
    finder.found
}

#[derive(Default)]
struct Finder {
    found: Vec<Lifetime>,
    bound: Vec<Lifetime>,
}

impl<'ast> Visit<'ast> for Finder {
    fn visit_lifetime(&mut self, lifetime: &'ast Lifetime) {
        self.found.push(lifetime.clone());
    }

    fn visit_bound_lifetimes(&mut self, bound: &'ast BoundLifetimes) {
        self.bound.extend(bound.lifetimes.iter().filter_map(|parameter| match parameter {
            GenericParam::Lifetime(parameter) => Some(parameter.lifetime.clone()),
            _ => None,
        }));
        visit::visit_bound_lifetimes(self, bound);
    }
}

/// Names elided lifetimes.
#[derive(Default)]
struct Namer {
    elided: Vec<Lifetime>,
    /// The name for all elided lifetimes, instead of a new one for each.
    given: Option<Lifetime>,
}

impl Namer {
    fn name(&mut self, span: Span) -> Lifetime {
        if let Some(given) = &self.given {
            return given.clone();
        }
        let lifetime = Lifetime::new(&format!("'__{}", self.elided.len()), span);
        self.elided.push(lifetime.clone());
        lifetime
    }
}

impl VisitMut for Namer {
    fn visit_type_reference_mut(&mut self, reference: &mut TypeReference) {
        if reference.lifetime.is_none() {
            reference.lifetime = Some(self.name(reference.and_token.spans[0]));
        }
        visit_mut::visit_type_reference_mut(self, reference);
    }

    fn visit_lifetime_mut(&mut self, lifetime: &mut Lifetime) {
        if lifetime.ident == "_" {
            *lifetime = self.name(lifetime.span());
        }
    }

    // These types bind their own elided lifetimes.
    fn visit_type_fn_ptr_mut(&mut self, _: &mut TypeFnPtr) {}

    fn visit_parenthesized_generic_arguments_mut(&mut self, _: &mut ParenthesizedGenericArguments) {}
}

/// Renames the lifetimes that a binder binds.
struct Renamer<'a> {
    lifetimes: &'a Lifetimes,
    binder: Binder,
}

impl VisitMut for Renamer<'_> {
    fn visit_lifetime_mut(&mut self, lifetime: &mut Lifetime) {
        if self.lifetimes.used.contains(lifetime) {
            *lifetime = self.lifetimes.renamed(lifetime, self.binder);
        }
    }
}
