//! The user's code as data: the parsers fill it in, `check` validates it, `expand` prints it.

use proc_macro2::{Group, Ident, TokenStream, TokenTree};
use syn::{Expr, ExprAsync, LitStr, Type};

use crate::replace::Replaceable;

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

/// Captures and replacement of a function, from its settings and signature.
#[derive(Default)]
pub(crate) struct Prepared {
    pub(crate) captures: Captures,
    /// The parts of its replacement, if it may be replaced.
    pub(crate) replaceable: Option<Replaceable>,
}

/// Fields that a function's probes record, from its settings and its signature.
#[derive(Default)]
pub(crate) struct Captures {
    pub(crate) entry: Vec<Field>,
    pub(crate) exit: Option<ExitCaptures>,
}

/// The exit of a function whose result is recorded.
pub(crate) struct ExitCaptures {
    /// Name that the fields use for a reference to the result.
    pub(crate) result: Ident,
    /// Fields of the exit, after its outcome.
    pub(crate) fields: Vec<Field>,
    /// Type of the result, as far as the body can name it.
    pub(crate) ty: Type,
    /// Variables that the closure around the body takes by value, in this order.
    pub(crate) moves: Vec<Ident>,
    /// Whether the body may assign to an argument.
    pub(crate) is_assigned: bool,
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

/// A block with the fate of each function.
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

/// The fate of a function in a block.
pub(crate) struct Fate {
    /// Complete settings, with name, group and path from the block.
    pub(crate) settings: Settings,
    /// The probes of the function, or the reason why it has none.
    pub(crate) verdict: Result<Prepared, &'static str>,
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
