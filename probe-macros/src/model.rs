//! What the user wrote, as data: the parsers fill it in, `check` judges it, `expand` prints it.

use proc_macro2::{Group, Ident, TokenStream, TokenTree};
use syn::{Expr, LitStr};

/// One argument of `#[probe(…)]`, still unjudged.
pub(crate) struct Arg {
    /// All of it, for errors.
    pub(crate) tokens: TokenStream,
    /// What it begins with, if that is a word.
    pub(crate) key: Option<Ident>,
    pub(crate) given: Given,
}

/// What follows the key of an argument.
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
    /// The path of `probe_runtime`; `None` for the usual one.
    pub(crate) krate: Option<TokenStream>,
    /// Whether the function may be replaced.
    pub(crate) replace: Option<Replace>,
}

/// `replace`.
pub(crate) struct Replace {
    /// `replace(method)`: the function stands in an `impl`, which its signature does not tell.
    pub(crate) is_method: bool,
}

/// What `#[probe]` was put on.
pub(crate) enum Item {
    Function(Function),
    /// Anything else; `keyword` says what (`struct`, `impl`, …), or is `None` for an expression.
    Other {
        keyword: Option<Ident>,
        tokens: TokenStream,
    },
}

/// A function as raw tokens, with just those parts picked out that decide something here.
pub(crate) struct Function {
    /// The brackets of each outer attribute.
    pub(crate) attributes: Vec<Group>,
    /// `const`, `async`, `unsafe`, `extern`, … before `fn`.
    pub(crate) qualifiers: Vec<Ident>,
    pub(crate) name: Ident,
    /// Every token before the body.
    pub(crate) head: TokenStream,
    /// The braces, or what stands there instead: the `;` of a function without a body.
    pub(crate) body: Result<Group, TokenTree>,
}

/// The input of `__point!`.
pub(crate) struct Point {
    /// The path of `probe_runtime`.
    pub(crate) krate: TokenStream,
    pub(crate) name: PointName,
    pub(crate) fields: Vec<Field>,
}

/// The first argument of `probe!(…)`.
pub(crate) enum PointName {
    Missing,
    Literal(LitStr),
    Other(TokenStream),
}

/// One `name = value` of `probe!(…)`; a shorthand has been written out.
pub(crate) struct Field {
    pub(crate) name: Ident,
    pub(crate) style: Style,
    pub(crate) expr: Expr,
}

/// How the runtime records a field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Style {
    /// `x = expr`: by its type.
    Value,
    /// `x = ?expr`: as `Debug` shows it.
    Debug,
    /// `x = %expr`: as `Display` shows it.
    Display,
}
