//! What the user wrote, as data: the parsers fill it in, `check` judges it, `expand` prints it.

use proc_macro2::{Group, Ident, TokenStream, TokenTree};
use syn::{Expr, ExprAsync, LitStr};

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
    /// The attribute has let others go first.
    pub(crate) is_deferred: bool,
    pub(crate) group: Option<LitStr>,
    pub(crate) doc: Option<LitStr>,
    /// The word, where it was given.
    pub(crate) skip: Option<Ident>,
    /// Of a block: small functions, too.
    pub(crate) all: Option<Ident>,
    /// Of a block: which functions.
    pub(crate) only: Option<Filter>,
    /// Of a block: which not.
    pub(crate) except: Option<Filter>,
}

/// The globs of `only(…)` or `except(…)`.
pub(crate) struct Filter {
    pub(crate) word: Ident,
    pub(crate) globs: Vec<LitStr>,
}

/// What `#[probe]` was put on.
pub(crate) enum Item {
    Function(Function),
    Block(Block),
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
    /// What the names of its functions begin with: the type or trait.
    pub(crate) prefix: Option<String>,
    /// Every token before the braces.
    pub(crate) head: TokenStream,
    pub(crate) body: Group,
    pub(crate) elements: Vec<Element>,
}

/// Where the functions of a block stand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Inside {
    /// Among items.
    Module,
    /// Among methods and associated items alone.
    Methods,
}

/// An item in a block. A `#[probe]` of its own has been taken off.
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

/// A block once it is decided what becomes of each function.
pub(crate) struct Plan {
    pub(crate) block: Block,
    /// One for each of the block's elements.
    pub(crate) parts: Vec<Part>,
}

pub(crate) enum Part {
    Function(Function, Fate),
    Block(Plan),
    Other(TokenStream),
}

/// What becomes of a function in a block. The settings are complete: name, group and path of the block are in them.
pub(crate) enum Fate {
    Probed(Settings),
    /// Left out, for this reason.
    Skipped(Settings, &'static str),
}

/// The input of `__point!`.
pub(crate) struct Point {
    /// The path of `probe_runtime`.
    pub(crate) krate: TokenStream,
    /// The group of the function that it stands in.
    pub(crate) group: Option<LitStr>,
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
