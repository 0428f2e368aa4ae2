//! What the user wrote, as data: the parsers fill it in, `check` judges it, `expand` prints it.

use proc_macro2::{Group, Ident, TokenStream, TokenTree};
use syn::{Expr, ExprAsync, LitStr, Type};

use crate::replace::Replaceable;

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
    pub(crate) args: Option<ArgsList>,
    pub(crate) ret: Option<RetList>,
    /// Whether the function may be replaced.
    pub(crate) replace: Option<Replace>,
}

/// The globs of `only(…)` or `except(…)`.
pub(crate) struct Filter {
    pub(crate) word: Ident,
    pub(crate) globs: Vec<LitStr>,
}

/// `args(…)`.
pub(crate) struct ArgsList {
    /// All of it.
    pub(crate) tokens: TokenStream,
    pub(crate) key: Ident,
    /// `*`: every argument that can be.
    pub(crate) all: bool,
    pub(crate) fields: Vec<Field>,
}

/// `ret` or `ret(…)`.
pub(crate) struct RetList {
    /// All of it.
    pub(crate) tokens: TokenStream,
    pub(crate) key: Ident,
    /// `None`: the result itself.
    pub(crate) fields: Option<Vec<Field>>,
}

/// `replace`.
pub(crate) struct Replace {
    /// All of it.
    pub(crate) tokens: TokenStream,
    /// `replace(method)`: the function stands in an `impl`, which its signature does not tell.
    pub(crate) is_method: bool,
}

/// What the check has made of a function's settings and signature.
#[derive(Default)]
pub(crate) struct Prepared {
    pub(crate) captures: Captures,
    /// How it may be replaced.
    pub(crate) replaceable: Option<Replaceable>,
}

/// What a function's probes record, from its settings and its signature.
#[derive(Default)]
pub(crate) struct Captures {
    /// Fields of the entry.
    pub(crate) entry: Vec<Field>,
    pub(crate) exit: Option<ExitCaptures>,
}

/// The exit of a function whose result is recorded.
pub(crate) struct ExitCaptures {
    /// By which the fields know a reference to the result.
    pub(crate) result: Ident,
    /// Fields of the exit, after its outcome.
    pub(crate) fields: Vec<Field>,
    /// The type of the result, as far as it can be written in the body.
    pub(crate) ty: Type,
    /// What the closure that becomes of the body takes by value, in this order.
    pub(crate) moves: Vec<Ident>,
    /// Whether the body may assign to an argument.
    pub(crate) is_assigned: bool,
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
    Function(Function, Box<Fate>),
    Block(Plan),
    Other(TokenStream),
}

/// What becomes of a function in a block.
pub(crate) struct Fate {
    /// Complete: name, group and path of the block are in them.
    pub(crate) settings: Settings,
    /// What its probes are, or why it has none.
    pub(crate) verdict: Result<Prepared, &'static str>,
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

/// One `name = value` of `probe!(…)`, `args(…)` or `ret(…)`; a shorthand has been written out.
#[derive(Clone)]
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
    /// By its type, whatever that is: of `args(*)` and `ret`.
    Any,
}
