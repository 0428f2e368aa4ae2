//! The user's code as data: the parsers fill it in, `check` validates it, `expand` prints it.

use std::fmt::Display;

use proc_macro2::{Group, Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::{Error, Expr, ExprAsync, LitStr};

/// One argument of `#[probe(…)]`, before the check.
pub(crate) struct Arg {
    /// All tokens of the argument, for errors.
    pub(crate) tokens: TokenStream,
    /// Its first token, if that is a word.
    pub(crate) key: Option<Ident>,
    pub(crate) given: Given,
}

/// The rest of an argument, after its key.
pub(crate) enum Given {
    /// Nothing: `key`.
    Nothing,
    /// `key = value`; empty if the user forgot the value.
    Value(TokenStream),
    /// `key(…)`.
    List(Group),
}

/// The arguments of `#[probe(…)]`, after the check.
#[derive(Default)]
pub(crate) struct Settings {
    pub(crate) name: Option<LitStr>,
    /// The path of `probe_runtime`; `None` for the usual path.
    pub(crate) krate: Option<TokenStream>,
    /// Whether the attribute has let other macros expand first.
    pub(crate) is_deferred: bool,
    pub(crate) group: Option<LitStr>,
    pub(crate) doc: Option<LitStr>,
    /// The word `skip`, if it was given.
    pub(crate) skip: Option<Ident>,
    /// For a block: probes small functions, too.
    pub(crate) all: Option<Ident>,
    /// For a block: the functions to probe.
    pub(crate) only: Option<Filter>,
    /// For a block: the functions to leave out.
    pub(crate) except: Option<Filter>,
    pub(crate) args: Option<ArgsList>,
    pub(crate) ret: Option<RetList>,
    /// Whether the function may be replaced.
    pub(crate) replace: Option<Replace>,
    /// The word `usdt`, if it was given.
    pub(crate) usdt: Option<Ident>,
}

impl Settings {
    /// Returns the arguments that parse to these settings.
    pub(crate) fn to_arguments(&self) -> TokenStream {
        let Settings { name, group, doc, krate, args, ret, replace, all, skip, only, except, usdt, .. } =
            self;
        let texts =
            [("name", name), ("group", group), ("doc", doc)].into_iter().filter_map(|(key, value)| {
                let key = Ident::new(key, Span::call_site());
                value.as_ref().map(|value| quote!(#key = #value))
            });
        let words = [
            args.as_ref().map(|args| args.tokens.clone()),
            ret.as_ref().map(|ret| ret.tokens.clone()),
            replace.as_ref().map(|replace| replace.tokens.clone()),
        ];
        let flags = [all, skip, usdt].into_iter().flatten().map(ToTokens::to_token_stream);
        let filters = [only, except].into_iter().flatten();
        let filters = filters.map(|Filter { word, globs }| quote!(#word(#(#globs),*)));
        let krate = krate.as_ref().map(|path| quote!(crate = #path));
        let arguments = texts.chain(words.into_iter().flatten()).chain(flags).chain(filters).chain(krate);
        quote!(#(#arguments),*)
    }
}

/// The globs of `only(…)` or `except(…)`.
pub(crate) struct Filter {
    pub(crate) word: Ident,
    pub(crate) globs: Vec<LitStr>,
}

/// `args(…)`.
pub(crate) struct ArgsList {
    /// All tokens of the argument.
    pub(crate) tokens: TokenStream,
    pub(crate) key: Ident,
    /// `*`: every argument that can be recorded.
    pub(crate) all: bool,
    pub(crate) fields: Vec<Field>,
}

/// `ret` or `ret(…)`.
pub(crate) struct RetList {
    /// All tokens of the argument.
    pub(crate) tokens: TokenStream,
    pub(crate) key: Ident,
    /// `None` for the result itself.
    pub(crate) fields: Option<Vec<Field>>,
}

/// `replace`.
pub(crate) struct Replace {
    /// All tokens of the argument.
    pub(crate) tokens: TokenStream,
    /// `replace(method)`: the function is in an `impl`, which its signature does not show.
    pub(crate) is_method: bool,
}

/// The item under `#[probe]`.
pub(crate) enum Item {
    Function(Function),
    Block(Block),
    /// Any other item. `keyword` is its kind (`struct`, `impl`, …), or `None` for an expression.
    Other {
        keyword: Option<Ident>,
        tokens: TokenStream,
    },
}

/// A function as raw tokens, with the parts picked out that matter here.
pub(crate) struct Function {
    /// The brackets of each outer attribute.
    pub(crate) attributes: Vec<Group>,
    /// `const`, `async`, `unsafe`, `extern`, … before `fn`.
    pub(crate) qualifiers: Vec<Ident>,
    pub(crate) name: Ident,
    /// Every token before the body.
    pub(crate) head: TokenStream,
    /// The braces, or the token in their place: the `;` of a function without a body.
    pub(crate) body: Result<Group, TokenTree>,
}

impl Function {
    pub(crate) fn is(&self, qualifier: &str) -> bool {
        self.qualifiers.iter().any(|word| word == qualifier)
    }
}

/// An `impl`, `trait` or `mod` with its contents.
pub(crate) struct Block {
    /// The brackets of each outer attribute.
    pub(crate) attributes: Vec<Group>,
    pub(crate) inside: Inside,
    /// Beginning of its functions' names: the type or trait.
    pub(crate) prefix: Option<String>,
    /// Every token before the braces.
    pub(crate) head: TokenStream,
    pub(crate) body: Group,
    pub(crate) elements: Vec<Element>,
}

/// The place of a block's functions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Inside {
    /// Among items.
    Module,
    /// Only among methods and associated items.
    Methods,
}

/// An item in a block, without its own `#[probe]`.
pub(crate) enum Element {
    Function(Vec<Own>, Function),
    Block(Vec<Own>, Block),
    Other(TokenStream),
}

/// A `#[probe(args)]` on an item in a block.
pub(crate) struct Own {
    pub(crate) word: Ident,
    pub(crate) args: TokenStream,
}

/// The input of `__point!`.
pub(crate) struct Point {
    /// The path of `probe_runtime`.
    pub(crate) krate: TokenStream,
    /// The group of the function around it.
    pub(crate) group: Option<LitStr>,
    /// Whether it begins with `usdt,`.
    pub(crate) is_usdt: bool,
    pub(crate) name: PointName,
    pub(crate) fields: Vec<Field>,
    /// The `async` block of `probe!("name", async {…})`.
    pub(crate) future: Option<ExprAsync>,
}

/// The first argument of `probe!(…)`.
pub(crate) enum PointName {
    Missing,
    Literal(LitStr),
    Other(TokenStream),
}

/// One `name = value` of `probe!(…)`, `args(…)` or `ret(…)`; shorthands are expanded.
#[derive(Clone)]
pub(crate) struct Field {
    pub(crate) name: Ident,
    pub(crate) style: Style,
    pub(crate) expr: Expr,
}

/// The way in which the runtime records a field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Style {
    /// `x = expr`: as its type requires.
    Value,
    /// `x = ?expr`: as `Debug` shows it.
    Debug,
    /// `x = %expr`: as `Display` shows it.
    Display,
    /// As its type allows, for `args(*)` and `ret`.
    Any,
}

/// The errors of one macro call, each at its own tokens. They are collected, so that all of them
/// are reported together.
#[derive(Default)]
pub(crate) struct Errors(Option<Error>);

impl Errors {
    pub(crate) fn push(&mut self, error: Error) {
        match &mut self.0 {
            Some(first) => first.combine(error),
            None => self.0 = Some(error),
        }
    }

    /// Adds an error that underlines all of `tokens`; without tokens, the macro call.
    pub(crate) fn at(&mut self, tokens: impl ToTokens, message: impl Display) {
        self.push(Error::new_spanned(tokens, message));
    }

    pub(crate) fn at_span(&mut self, span: Span, message: impl Display) {
        self.push(Error::new(span, message));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    pub(crate) fn into_result(self) -> Result<(), Error> {
        self.0.map_or(Ok(()), Err)
    }
}
