//! Functions that return a future: `async fn`, `-> impl Future`, and the output of
//! `#[async_trait]`.
//!
//! The probes of such a function are those of its future (the runtime's `future!`), so the future
//! gets wrapped:
//!
//! | written | becomes |
//! |---|---|
//! | `async fn f(x: X) -> R { body }` | `fn f(x: X) -> impl Future<Output = R> { future!(… async move { let x = x; body }) }` |
//! | `fn f() -> impl Future { …; async { body } }` | the same function, its last `async` block in `future!` |
//! | `fn f() -> Pin<Box<dyn Future>> { …; Box::pin(async { body }) }` | the same |
//! | `fn f() -> impl Future { any(body) }` | `fn f() -> impl Future { future!(… call_once(move \|\| { any(body) })) }` |
//!
//! The first line is rustc's own expansion of an `async fn`: all parameters move into the future,
//! whether the body uses them or not, and are dropped in the same order. The `impl` has this
//! crate's edition, 2024, so that it captures every lifetime, as an `async fn` does in every
//! edition. (A block inside an `async fn` would hold its parameters and its state twice.)

mod deferred;

pub(crate) use deferred::{DEFERRED, deferred, deferred_block, early, is_early};

use proc_macro2::{Delimiter, Group, Span, TokenStream, TokenTree};
use quote::{format_ident, quote, quote_spanned};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{
    Attribute, Error, FnArg, GenericArgument, Meta, Pat, PatType, PathArguments, ReceiverKind, ReturnType,
    Signature, Token, Type, TypeParamBound, Visibility,
};

use crate::model::Function;
use crate::signature::drop_order;
use crate::{signature, tokens};

/// The parts of a function that returns a future.
pub(crate) struct Asynchronous {
    attributes: Vec<Attribute>,
    visibility: Visibility,
    signature: Signature,
    wrapped: Wrapped,
    /// Output of the future of a function that is not `async`, if that type can be named.
    output: Option<Type>,
}

/// The part of a function that is its future.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wrapped {
    /// The body of an `async fn`, which becomes a block.
    Body,
    /// The `async` block at its end.
    Block { by_move: bool },
    /// Any future that its body returns.
    Call,
}

/// Parses `function`, if it returns a future that can be wrapped.
pub(crate) fn asynchronous(function: &Function) -> syn::Result<Option<Asynchronous>> {
    let is_async = function.is("async");
    if !is_async && !mentions(&function.head, "Future") {
        return Ok(None);
    }
    let (attributes, visibility, signature) = match signature::head(function.head.clone()) {
        Ok(head) => head,
        Err(error) if is_async => return Err(error),
        // Other functions need not be parsed.
        Err(_) => return Ok(None),
    };
    let last = || {
        let body = function.body.as_ref().ok()?;
        last_block(&tokens::split_inner_attributes(body.stream()).1)
    };
    let wrapped = match returned(&signature) {
        _ if is_async => Wrapped::Body,
        Returned::Other => return Ok(None),
        Returned::Future => last().map_or(Wrapped::Call, |last| last.wrapped()),
        Returned::Boxed => match last() {
            Some(last) => last.wrapped(),
            None => return Ok(None),
        },
    };
    if wrapped == Wrapped::Call
        && let Some(tracked) = attributes.iter().find(|it| it.path().is_ident("track_caller"))
    {
        return Err(Error::new_spanned(
            tracked.path(),
            "`#[probe]` on a function that returns a future makes a closure of its body, which would not see the caller's \
             location; end the body with an `async` block, or remove one of the two",
        ));
    }
    let output = if is_async { None } else { output(&signature) };
    Ok(Some(Asynchronous { attributes, visibility, signature, wrapped, output }))
}

/// The return type of a function that is not `async`.
#[derive(PartialEq, Eq)]
enum Returned {
    /// `impl Future`, or with further bounds that the wrapper fulfils too.
    Future,
    /// `Pin<Box<dyn Future>>`.
    Boxed,
    Other,
}

fn returned(signature: &Signature) -> Returned {
    match promised(signature) {
        Some((returned, bounds)) if bounds.iter().any(is_future) && bounds.iter().all(is_forwarded) => {
            returned
        }
        _ => Returned::Other,
    }
}

/// Returns the bounds of a result whose type is `impl …` or `Pin<Box<dyn …>>`.
fn promised(signature: &Signature) -> Option<(Returned, &Punctuated<TypeParamBound, Token![+]>)> {
    let ReturnType::Type(_, ty) = &signature.output else { return None };
    if let Type::ImplTrait(it) = &**ty {
        return Some((Returned::Future, &it.bounds));
    }
    match argument(ty, "Pin").and_then(|it| argument(it, "Box"))? {
        Type::TraitObject(it) => Some((Returned::Boxed, &it.bounds)),
        _ => None,
    }
}

/// Returns the `X` of `impl Future<Output = X>` and `Pin<Box<dyn Future<Output = X>>>`.
fn output(signature: &Signature) -> Option<Type> {
    let (_, bounds) = promised(signature)?;
    let TypeParamBound::Trait(bound) = bounds.iter().find(|it| is_future(it))? else { return None };
    let PathArguments::AngleBracketed(arguments) = &bound.path.segments.last()?.arguments else {
        return None;
    };
    let output = arguments.args.iter().find_map(|it| match it {
        GenericArgument::AssocType(it) if it.ident == "Output" => Some(it.ty.clone()),
        _ => None,
    })?;
    let is_nameable =
        !mentions(&quote!(#output), "impl") && !matches!(output, Type::Never(_) | Type::Macro(_));
    is_nameable.then_some(output)
}

/// A statement that fixes the type that a block returns, since rustc can't infer it through the
/// wrapper.
fn anchor(krate: &TokenStream, output: &impl quote::ToTokens) -> TokenStream {
    quote!(if false { return #krate::__private::v1::returned::<#output>(); })
}

/// Makes an `async {…}` or `async move {…}` a future that reports its progress to the runtime.
pub(crate) fn reporting(block: TokenStream, krate: &TokenStream) -> TokenStream {
    let first = quote!(#krate::__private::v1::unfrozen! {});
    block.into_iter().map(|tree| beginning_with(tree, &first)).collect()
}

impl Asynchronous {
    pub(crate) fn wrapped(&self) -> Wrapped {
        self.wrapped
    }

    /// Returns the head and the body of `function`, with its future wrapped by `wrap`. `entered`
    /// becomes the first statement of the future that has the arguments. `rewrite` transforms the
    /// statements of the body.
    pub(crate) fn expand(
        self,
        function: &Function,
        body: &Group,
        krate: &TokenStream,
        entered: Option<&TokenStream>,
        rewrite: impl Fn(TokenStream) -> TokenStream,
        wrap: impl Fn(TokenStream) -> TokenStream,
    ) -> (TokenStream, Group) {
        let (inner_attributes, statements) = tokens::split_inner_attributes(body.stream());
        let (head, statements) = match self.wrapped {
            Wrapped::Body => {
                let statements = rewrite(statements);
                let (binds, signature, output) = self.converted(krate);
                let anchor = output.map(|output| anchor(krate, &output));
                // As in rustc's own expansion, the body is a block inside the block that holds the
                // parameters, so that borrows of them in its last expression are dropped first.
                // That needs braces of the edition 2024. The first statement inside ends with an
                // item, since rustc would otherwise call the user's braces unnecessary.
                let statements =
                    tokens::rebuilt(body, quote!(#krate::__private::v1::unfrozen! {} #statements));
                let mut block = Group::new(Delimiter::Brace, quote!(#anchor #binds #entered #statements));
                block.set_span(Span::mixed_site().located_at(body.span()));
                (signature, wrap(quote!(async move #block)))
            }
            Wrapped::Block { .. } => {
                let last = last_block(&rewrite(statements));
                let anchor = self.output.map(|output| anchor(krate, &output));
                let first = quote!(#anchor #krate::__private::v1::unfrozen! {} #entered);
                let statements = last.map(|last| last.wrap(&first, wrap));
                (function.head.clone(), statements.unwrap_or_default())
            }
            Wrapped::Call => {
                let statements = rewrite(statements);
                let call = quote_spanned!(body.span()=> #krate::__private::v1::call_once);
                let output = self.output.map_or_else(|| quote!(_), |output| quote!(#output));
                let (drop_order, is_assigned) = drop_order(&self.signature);
                let moving = (!drop_order.is_empty())
                    .then(|| quote!(#krate::__private::v1::moving!(#(#drop_order),*);));
                // rustc's lint does not count the drop of a captured variable as a use.
                let allow = (moving.is_some() && is_assigned).then(|| quote!(#[allow(unused_assignments)]));
                let closure = quote!(#allow move || { #moving #statements });
                (function.head.clone(), wrap(quote!(#call::<_, #output>(#closure))))
            }
        };
        (head, tokens::rebuilt(body, quote!(#inner_attributes #statements)))
    }

    /// Returns the bindings of the parameters, the head of the function, which is no longer
    /// `async`, and the output, if it can be named.
    fn converted(self, krate: &TokenStream) -> (TokenStream, TokenStream, Option<TokenStream>) {
        let Self { mut attributes, visibility, mut signature, .. } = self;
        // A future must be used in any case, and clippy complains of a repetition. A reason by the
        // user stays.
        attributes.retain(|it| !matches!(&it.meta, Meta::Path(path) if path.is_ident("must_use")));
        let mut binds = TokenStream::new();
        for (number, input) in signature.inputs.iter_mut().enumerate() {
            match input {
                FnArg::Receiver(receiver) => {
                    let this = receiver.self_token;
                    binds.extend(quote!(let _ = &#this;));
                    // `self` can't be bound again, and rustc's lint does not count the drop of a
                    // captured variable as a use.
                    if receiver.mutability.is_some() && !matches!(receiver.kind, ReceiverKind::Reference(..))
                    {
                        attributes.push(syn::parse_quote!(#[allow(unused_assignments)]));
                    }
                }
                FnArg::Typed(typed) => binds.extend(bind(typed, number)),
            }
        }
        let is_async = signature.asyncness.take().map_or_else(Span::call_site, |it| it.span());
        let (output, is_nameable) = match &signature.output {
            ReturnType::Default => (quote_spanned!(is_async=> ()), false),
            ReturnType::Type(_, ty) if matches!(**ty, Type::Never(_)) => {
                (quote_spanned!(ty.span()=> <fn() -> ! as #krate::__private::v1::Returning>::Output), false)
            }
            ReturnType::Type(_, ty) => (quote!(#ty), !mentions(&quote!(#ty), "impl")),
        };
        // If nothing but a name resolves differently, the edition comes from the macro's own place.
        let edition = Span::mixed_site().located_at(is_async);
        let future = quote_spanned!(edition=> impl);
        signature.output = syn::parse_quote!(-> #future #krate::__private::v1::Future<Output = #output>);
        (binds, quote!(#(#attributes)* #visibility #signature), is_nameable.then_some(output))
    }
}

/// Moves a parameter into the future, and makes the parameter of the function a plain name. Its
/// attributes (`cfg`, lints) apply to both.
fn bind(typed: &mut PatType, number: usize) -> TokenStream {
    let attributes = typed.attrs.clone();
    if let Pat::Ident(it) = &mut *typed.pat
        && it.by_ref.is_none()
        && it.subpat.is_none()
    {
        let mutability = it.mutability.take();
        let name = &it.ident;
        return quote!(#(#attributes)* let #mutability #name = #name;);
    }
    let name = format_ident!("__probe_arg{number}", span = typed.pat.span());
    let pattern = std::mem::replace(&mut *typed.pat, syn::parse_quote!(#name));
    quote!(#(#attributes)* let #name = #name; #(#attributes)* let #pattern = #name;)
}

/// Returns the one type argument of `name<…>`.
fn argument<'a>(ty: &'a Type, name: &str) -> Option<&'a Type> {
    let Type::Path(path) = ty else { return None };
    let last = path.path.segments.last().filter(|it| it.ident == name)?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    arguments.args.iter().find_map(|it| match it {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    })
}

fn is_future(bound: &TypeParamBound) -> bool {
    matches!(bound, TypeParamBound::Trait(it) if it.path.segments.last().is_some_and(|it| it.ident == "Future"))
}

/// Returns whether the wrapper fulfils this bound if its future does. Any other trait may be
/// implemented only for the future.
fn is_forwarded(bound: &TypeParamBound) -> bool {
    const FORWARDED: [&str; 8] =
        ["Clone", "Future", "RefUnwindSafe", "Send", "Sized", "Sync", "Unpin", "UnwindSafe"];
    match bound {
        TypeParamBound::Trait(it) => {
            it.path.segments.last().is_some_and(|it| FORWARDED.iter().any(|forwarded| it.ident == forwarded))
        }
        TypeParamBound::Lifetime(_) | TypeParamBound::PreciseCapture(_) => true,
        _ => false,
    }
}

fn mentions(tokens: &TokenStream, word: &str) -> bool {
    tokens.clone().into_iter().any(|tree| match tree {
        TokenTree::Ident(ident) => ident == word,
        TokenTree::Group(group) => mentions(&group.stream(), word),
        _ => false,
    })
}

/// The `async` block at the end of a body, alone or as the argument of `Box::pin`.
struct LastBlock {
    before: Vec<TokenTree>,
    block: TokenStream,
    /// The parentheses of `Box::pin(…)`, if there are any.
    pin: Option<Group>,
}

impl LastBlock {
    fn wrapped(&self) -> Wrapped {
        let by_move = self.block.clone().into_iter().any(|tree| is_word(&tree, "move"));
        Wrapped::Block { by_move }
    }

    /// Returns all tokens, with the block wrapped by `wrap`; `entered` is its first statement.
    fn wrap(self, entered: &TokenStream, wrap: impl Fn(TokenStream) -> TokenStream) -> TokenStream {
        let mut tokens: TokenStream = self.before.into_iter().collect();
        let block = wrap(self.block.into_iter().map(|tree| beginning_with(tree, entered)).collect());
        match self.pin {
            Some(pin) => tokens.extend([TokenTree::Group(tokens::rebuilt(&pin, block))]),
            None => tokens.extend(block),
        }
        tokens
    }
}

/// Adds the first statement if this token of an `async move {…}` is its braces.
fn beginning_with(tree: TokenTree, entered: &TokenStream) -> TokenTree {
    match tree {
        TokenTree::Group(group) => {
            let (inner_attributes, statements) = tokens::split_inner_attributes(group.stream());
            tokens::rebuilt(&group, quote!(#inner_attributes #entered #statements)).into()
        }
        tree => tree,
    }
}

fn is_word(tree: &TokenTree, word: &str) -> bool {
    matches!(tree, TokenTree::Ident(it) if it == word)
}

fn last_block(statements: &TokenStream) -> Option<LastBlock> {
    let mut before: Vec<TokenTree> = statements.clone().into_iter().collect();
    let at = block_at_end(&before);
    if let Some(at) = at {
        // After an expression, it would be something else, such as the operand of an operator.
        let is_statement = match before[..at].last() {
            None => true,
            Some(TokenTree::Punct(it)) => it.as_char() == ';',
            Some(TokenTree::Group(it)) => it.delimiter() == Delimiter::Brace,
            Some(_) => false,
        };
        let block = before.split_off(at).into_iter().collect();
        return is_statement.then_some(LastBlock { before, block, pin: None });
    }
    let Some(TokenTree::Group(pin)) = before.last().cloned() else { return None };
    let called: Vec<String> =
        before[..before.len() - 1].iter().rev().take(4).map(ToString::to_string).collect();
    let argument: Vec<TokenTree> = pin.stream().into_iter().collect();
    if pin.delimiter() != Delimiter::Parenthesis
        || called != ["pin", ":", ":", "Box"]
        || block_at_end(&argument) != Some(0)
    {
        return None;
    }
    before.pop();
    Some(LastBlock { before, block: argument.into_iter().collect(), pin: Some(pin) })
}

/// Returns the place of the `async {…}` or `async move {…}` that ends the tokens.
fn block_at_end(trees: &[TokenTree]) -> Option<usize> {
    match trees {
        [.., asynchronous, by_move, TokenTree::Group(block)]
            if block.delimiter() == Delimiter::Brace
                && is_word(by_move, "move")
                && is_word(asynchronous, "async") =>
        {
            Some(trees.len() - 3)
        }
        [.., asynchronous, TokenTree::Group(block)]
            if block.delimiter() == Delimiter::Brace && is_word(asynchronous, "async") =>
        {
            Some(trees.len() - 2)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
