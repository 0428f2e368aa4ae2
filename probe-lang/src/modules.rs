//! Functions of shared libraries that become probes, as a text of one line each.
//!
//! ```text
//! # The database's client.
//! library libpq.so.*
//! pq::connect = pointer PQconnectdb(text info)
//! pq::execute = pointer PQexec(pointer connection, text query)
//! pq::clear = void PQclear(pointer result)
//! ```
//! A probe's path comes first, then the function as in C: the result's type, its name, and its
//! parameters, each with its type and the name of its field. A function with several names has them
//! joined: `open|open64`. `library` names files, for the lines below; `*` stands for any part of a
//! name. `entry` before the result's type says that there is no probe at the exit.
//!
//! A function that takes or gives something, such as a lock, may say so at the end of its line:
//!
//! ```text
//! lock::mutex_lock = int pthread_mutex_lock(pointer mutex) takes mutex if ret == 0
//! lock::mutex_unlock = int pthread_mutex_unlock(pointer mutex) gives mutex
//! ```
//! From the exit of the first to the entry of the second, the thread holds it: `lock::*=held`. A
//! function that gives it for a while, as `pthread_cond_wait`, has both: `gives mutex takes mutex`.
//!
//! | type | of C |
//! |---|---|
//! | `int8` to `int64`, `int`, `long`, `ssize` | signed integers |
//! | `uint8` to `uint64`, `unsigned`, `size` | unsigned integers |
//! | `bool`, `float`, `double` | the same |
//! | `pointer` | any pointer, as a number |
//! | `text` | `char *` of a string |
//! | `void` | no result |

use std::collections::HashSet;
use std::fmt;

use crate::cursor::Cursor;
use crate::error::{ParseError, mistake};
use crate::expression::{Mismatch, Predicate, Program, Scope};
use crate::glob::matches;

/// The most parameters of a function. A probe has sixteen fields: those that are named come first.
pub const MOST_PARAMETERS: usize = 32;

/// The name of results.
pub const RESULT: &str = "ret";

/// Names of the notes that probes of functions have: the module, the fields that the function takes
/// and gives, and the condition of taking.
pub const MODULE_NOTE: &str = "module";
pub const TAKES_NOTE: &str = "takes";
pub const GIVES_NOTE: &str = "gives";
pub const TAKES_IF_NOTE: &str = "if";

/// Functions that can't be called by a function that waits for their return, and the reason.
const NO_EXIT: [(&str, &str); 10] = [
    ("vfork", TWICE),
    ("setjmp", TWICE),
    ("_setjmp", TWICE),
    ("sigsetjmp", TWICE),
    ("__sigsetjmp", TWICE),
    ("getcontext", TWICE),
    ("dlopen", ITS_CALLER),
    ("dlmopen", ITS_CALLER),
    ("dlsym", ITS_CALLER),
    ("dlvsym", ITS_CALLER),
];
const TWICE: &str = "returns twice";
const ITS_CALLER: &str = "looks at its caller";

/// The type of a parameter or a result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CType {
    /// An integer of this many bytes; a pointer is one.
    Unsigned(u8),
    Signed(u8),
    Bool,
    Float,
    Double,
    Text,
}

impl CType {
    const ALL: [(&str, Self); 18] = [
        ("int", Self::Signed(4)),
        ("int8", Self::Signed(1)),
        ("int16", Self::Signed(2)),
        ("int32", Self::Signed(4)),
        ("int64", Self::Signed(8)),
        ("long", Self::Signed(8)),
        ("ssize", Self::Signed(8)),
        ("unsigned", Self::Unsigned(4)),
        ("uint8", Self::Unsigned(1)),
        ("uint16", Self::Unsigned(2)),
        ("uint32", Self::Unsigned(4)),
        ("uint64", Self::Unsigned(8)),
        ("size", Self::Unsigned(8)),
        ("pointer", Self::Unsigned(8)),
        ("bool", Self::Bool),
        ("float", Self::Float),
        ("double", Self::Double),
        ("text", Self::Text),
    ];

    /// Returns whether it is passed in a vector register.
    pub fn is_floating(self) -> bool {
        matches!(self, Self::Float | Self::Double)
    }
}

/// A function that a module names.
#[derive(Clone, Debug)]
pub struct Function {
    pub path: String,
    /// File names of libraries, with `*`.
    pub libraries: Vec<String>,
    /// Its names, of which libraries may have any.
    pub symbols: Vec<String>,
    pub result: Option<CType>,
    pub parameters: Vec<(String, CType)>,
    pub has_exit: bool,
    /// Whether further arguments may follow.
    pub is_variadic: bool,
    /// The field whose value the thread holds after the call, and the condition.
    pub takes: Option<(String, Option<Predicate>)>,
    /// The field whose value the thread holds no longer.
    pub gives: Option<String>,
    /// The line of the text, from 1.
    pub line: u32,
}

impl Function {
    /// Returns the name of its module.
    pub fn module(&self) -> &str {
        self.path.split("::").next().unwrap_or_default()
    }

    /// Returns whether a library's file is one of those that may have it.
    pub fn is_in(&self, file: &str) -> bool {
        self.libraries.iter().any(|it| matches(it.as_bytes(), file.as_bytes()))
    }
}

/// A mistake in a module's text. It prints with the line and a caret below the place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ModuleError {
    file: String,
    number: u32,
    line: String,
    mistake: ParseError,
}

impl fmt::Display for ModuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, number, line, mistake: error } = self;
        mistake(&format!("{file}, line {number}"), line, error.at, &error.problem, f)
    }
}

impl std::error::Error for ModuleError {}

/// Reads a module's text, from a file of this name.
///
/// # Errors
/// The first mistake.
pub fn parse(file: &str, text: &str) -> Result<Vec<Function>, ModuleError> {
    let (mut functions, mut paths, mut libraries) = (Vec::new(), HashSet::new(), Vec::new());
    for (number, line) in (1..).zip(text.lines()) {
        let content = without_comment(line).trim_end();
        let read = parse_line(content, number, &mut libraries).and_then(|function| {
            let Some(function) = function else { return Ok(()) };
            if !paths.insert(function.path.clone()) {
                return Err(ParseError::new("another line has this path"));
            }
            functions.push(function);
            Ok(())
        });
        read.map_err(|error| ModuleError {
            file: file.to_owned(),
            number,
            line: content.to_owned(),
            mistake: error.within(content),
        })?;
    }
    Ok(functions)
}

/// Returns the part of a line before its comment. In quotes, `#` begins none.
fn without_comment(line: &str) -> &str {
    let (mut is_quoted, mut is_escaped) = (false, false);
    let begins = |c: char| {
        is_quoted ^= c == '"' && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        c == '#' && !is_quoted
    };
    line.split(begins).next().unwrap_or_default()
}

fn parse_line(line: &str, number: u32, libraries: &mut Vec<String>) -> Result<Option<Function>, ParseError> {
    let mut cursor = Cursor::new(line, 0);
    if cursor.rest().is_empty() {
        return Ok(None);
    }
    if cursor.skip_word("library") && !cursor.rest().starts_with("::") {
        *libraries = cursor.rest().split_whitespace().map(str::to_owned).collect();
        if libraries.is_empty() {
            return cursor.fail("the name of a library's file stands here: `library libm.so.6`");
        }
        if let Some(name) = libraries.iter().find(|it| it.contains('/')) {
            let at = line.find(&**name).unwrap_or_default();
            return Err(ParseError {
                at,
                problem: "a library has the name of a file, without a folder".into(),
            });
        }
        return Ok(None);
    }
    let path = path(&mut Cursor::new(line, 0), &mut cursor)?;
    if libraries.is_empty() {
        return Err(ParseError::new("a line `library libNAME.so.1` stands above the functions"));
    }
    if !cursor.skip("=") {
        return cursor.fail("`=` and a function stand here: `app::area = double area(double side)`");
    }
    let has_exit = !cursor.skip_word("entry");
    let result = if cursor.skip_word("void") { None } else { Some(ty(&mut cursor)?) };
    let mut symbols = Vec::new();
    while symbols.is_empty() || cursor.skip("|") {
        let at = cursor.at;
        let symbol = name(&mut cursor, "the function's name stands here")?;
        if let Some((_, reason)) = NO_EXIT.iter().find(|(known, _)| *known == symbol).filter(|_| has_exit) {
            let problem =
                format!("this function {reason}, so it has no exit: write `entry` before its result");
            return Err(ParseError { at, problem });
        }
        symbols.push(symbol.to_owned());
    }
    if !cursor.skip("(") {
        return cursor.fail("`(` stands here, and the parameters");
    }
    let (parameters, is_variadic) = parameters(&mut cursor, has_exit)?;
    let libraries = libraries.clone();
    let (takes, gives) = (None, None);
    let mut function = Function {
        path,
        libraries,
        symbols,
        result,
        parameters,
        has_exit,
        is_variadic,
        takes,
        gives,
        line: number,
    };
    if cursor.skip_word("gives") {
        function.gives = Some(held(&mut cursor, &function, false)?);
    }
    if cursor.skip_word("takes") {
        if !has_exit {
            return cursor.fail("a function takes something by its exit, and this one has none");
        }
        let field = held(&mut cursor, &function, true)?;
        function.takes = Some((field, condition(&mut cursor, &function)?));
    }
    if !cursor.rest().is_empty() {
        return cursor.fail("the line ends here");
    }
    Ok(Some(function))
}

/// Reads the name of the field that a function takes or gives.
fn held(cursor: &mut Cursor<'_>, function: &Function, may_be_result: bool) -> Result<String, ParseError> {
    let field = cursor.word();
    let parameter = function.parameters.iter().find(|(name, _)| name == field).map(|(_, ty)| *ty);
    match parameter.or(function.result.filter(|_| may_be_result && field == RESULT)) {
        Some(ty) if !ty.is_floating() => Ok(cursor.pass(field.len()).to_owned()),
        _ => cursor.fail("the name of a field stands here, which is no floating-point number"),
    }
}

/// Reads the condition that takes up the rest of a line.
fn condition(cursor: &mut Cursor<'_>, function: &Function) -> Result<Option<Predicate>, ParseError> {
    if !cursor.skip_word("if") {
        return Ok(None);
    }
    let text = cursor.rest();
    let at = cursor.at;
    let predicate: Predicate = text.parse().map_err(|error: ParseError| error.after(at))?;
    if predicate.node().samples() != 0 {
        return cursor.fail("a condition is about one call, so it counts none");
    }
    let names = function.parameters.iter().map(|(name, _)| &**name).chain(function.result.map(|_| RESULT));
    let fields: Vec<_> = names.map(|name| (name.to_owned(), None)).collect();
    let scope = Scope { fields: &fields, has_latency: false };
    Program::condition(predicate.node(), &scope).map_err(|mismatch| match mismatch {
        Mismatch::Unknown { name, at: within } => {
            ParseError { at: at + within, problem: format!("`{name}` is not a field of this function") }
        }
        Mismatch::Type(error) => error.after(at),
    })?;
    cursor.pass(cursor.rest().len());
    Ok(Some(predicate))
}

/// Reads a path, and places `cursor` behind it.
fn path(from: &mut Cursor<'_>, cursor: &mut Cursor<'_>) -> Result<String, ParseError> {
    let mut path = name(from, "a probe's path stands here: `lock::mutex_lock`")?.to_owned();
    if !from.rest().starts_with("::") {
        return from.fail("a path has a module, `::` and a name: `lock::mutex_lock`");
    }
    while from.skip("::") {
        path += "::";
        path += name(from, "a name stands behind `::`")?;
    }
    cursor.at = from.at;
    Ok(path)
}

/// Reads the parameters up to the closing bracket, and whether further arguments may follow.
fn parameters(cursor: &mut Cursor<'_>, has_exit: bool) -> Result<(Vec<(String, CType)>, bool), ParseError> {
    let mut parameters: Vec<(String, CType)> = Vec::new();
    let mut is_variadic = false;
    if cursor.skip(")") {
        return Ok((parameters, false));
    }
    loop {
        if cursor.rest().starts_with("...") {
            if has_exit {
                return cursor.fail(
                    "any number of arguments can't be passed on, so there is no exit: write `entry` before the \
                     result, or the parameters that are used",
                );
            }
            is_variadic = cursor.skip("...");
            break;
        }
        if parameters.len() == MOST_PARAMETERS {
            return cursor.fail(format!("a function has at most {MOST_PARAMETERS} parameters"));
        }
        let ty = ty(cursor)?;
        let at = cursor.at;
        let name = name(cursor, "the name of a field stands here: `pointer mutex`")?.to_owned();
        if name == RESULT || parameters.iter().any(|(known, _)| *known == name) {
            return Err(ParseError { at, problem: format!("another field is `{name}`") });
        }
        parameters.push((name, ty));
        if !cursor.skip(",") {
            break;
        }
    }
    if cursor.skip(")") { Ok((parameters, is_variadic)) } else { cursor.fail("`,` or `)` stands here") }
}

fn ty(cursor: &mut Cursor<'_>) -> Result<CType, ParseError> {
    let word = cursor.word();
    if let Some((_, ty)) = CType::ALL.iter().find(|(known, _)| *known == word) {
        cursor.pass(word.len());
        return Ok(*ty);
    }
    let all = CType::ALL.map(|(name, _)| name).join(", ");
    cursor.fail(format!("a type stands here, one of {all}; a result may be void"))
}

/// Reads a name of C.
fn name<'a>(cursor: &mut Cursor<'a>, problem: &str) -> Result<&'a str, ParseError> {
    let word = cursor.word();
    let begins = |c: char| c.is_ascii_alphabetic() || c == '_';
    if !word.starts_with(begins) || !word.is_ascii() {
        return cursor.fail(problem);
    }
    Ok(cursor.pass(word.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Vec<Function> {
        parse("a.probes", text).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn a_line_is_a_function() {
        let text = "\n# two\nlibrary libm.so.* libc.so.6\nm::a::pow = double pow|powl(double x, double y) # a comment\n\
                    m::log = entry void syslog(int priority, text format, ...)\nlibrary libz.so.1\nz::v=text v()\n";
        let [pow, log, version] = &parsed(text)[..] else { panic!("three") };
        assert_eq!((&*pow.path, pow.module(), pow.line), ("m::a::pow", "m", 4));
        assert_eq!(pow.symbols, ["pow", "powl"]);
        assert_eq!((pow.result, pow.has_exit), (Some(CType::Double), true));
        assert_eq!(pow.parameters, [("x".into(), CType::Double), ("y".into(), CType::Double)]);
        assert!(pow.is_in("libm.so.6") && pow.is_in("libc.so.6") && !pow.is_in("libz.so.1"));
        assert_eq!((log.result, log.has_exit, log.is_variadic, log.parameters.len()), (None, false, true, 2));
        assert_eq!((version.result, &*version.libraries), (Some(CType::Text), &["libz.so.1".to_owned()][..]));
    }

    #[test]
    fn a_function_takes_and_gives() {
        let text = "library l\nm::take = int take(pointer a, int b) takes a if ret == 0 || ret == 130\n\
                    m::wait = int wait(pointer a) gives a takes a\nm::new = text new() takes ret if ret != \"#\"\n\
                    m::free = void free(pointer it) gives it # the last one";
        let told = |function: &Function| {
            let takes = function
                .takes
                .as_ref()
                .map(|(field, condition)| (field.clone(), condition.as_ref().map(|it| it.text().to_owned())));
            (takes, function.gives.clone())
        };
        let own = str::to_owned;
        assert_eq!(
            parsed(text).iter().map(told).collect::<Vec<_>>(),
            [
                (Some((own("a"), Some(own("ret == 0 || ret == 130")))), None),
                (Some((own("a"), None)), Some(own("a"))),
                (Some((own("ret"), Some(own("ret != \"#\"")))), None),
                (None, Some(own("it"))),
            ]
        );
    }

    #[test]
    fn a_mistake_has_a_place() {
        for (line, at, problem) in [
            ("area = double area()", 5, "a path has a module"),
            ("a:: = int f()", 4, "a name stands behind"),
            ("a::f", 4, "`=` and a function"),
            ("a::f = f()", 7, "a type stands here"),
            ("a::f = int (", 11, "the function's name"),
            ("a::f = int f", 12, "`(` stands here"),
            ("a::f = int f(int)", 16, "the name of a field"),
            ("a::f = int f(int a", 18, "`,` or `)`"),
            ("a::f = int f(int a) b", 20, "the line ends"),
            ("a::f = int f(void)", 13, "a type stands here"),
            ("a::f = int f(int a) gives b", 26, "the name of a field"),
            ("a::f = int f(int a) gives ret", 26, "the name of a field"),
            ("a::f = int f(double a) takes a", 29, "the name of a field"),
            ("a::f = int f(int a) takes a if", 30, "a field, a constant or `(`"),
            ("a::f = int f(int a) takes a if ret = 0", 35, "compare by `==`"),
            ("a::f = int f(int a) takes a if b == 0", 31, "`b` is not a field of this function"),
            ("a::f = void f(int a) takes a if ret == 0", 32, "`ret` is not a field of this function"),
            ("a::f = int f(int a) takes a if ret == 0 && latency > 1", 43, "`latency` is not a field"),
            ("a::f = int f(int a) takes a if first 1", 31, "a condition is about one call"),
            ("a::f = entry int f(int a) takes a", 32, "a function takes something by its exit"),
            ("a::f = int f(int a, int a)", 24, "another field is `a`"),
            ("a::f = int f(int ret)", 17, "another field is `ret`"),
            ("a::f = int f(text a, ...)", 21, "any number of arguments"),
            ("a::f = int f| (int a)", 14, "the function's name"),
            ("a::f = int vfork()", 11, "this function returns twice"),
            ("library", 7, "the name of a library's file"),
            ("library /lib/libm.so.6", 8, "a library has the name of a file"),
            ("a::g = void g()", 0, "another line has this path"),
        ] {
            let error = parse("a.probes", &format!("library l\na::g = int g()\n{line}")).unwrap_err();
            assert_eq!((error.number, error.mistake.at), (3, at), "{error}");
            assert!(error.mistake.problem.starts_with(problem), "{error}");
        }
        let error = parse("own.probes", "a::f = int f()").unwrap_err().to_string();
        let expected = "own.probes, line 1, column 1: a line `library libNAME.so.1` stands above the functions\n  \
                        a::f = int f()\n  ^";
        assert_eq!(error, expected);
        let many: Vec<_> = (0..33).map(|at| format!("int a{at}")).collect();
        let error = parse("m", &format!("library l\nm::f = int f({})", many.join(", "))).unwrap_err();
        assert!(error.to_string().contains("at most 32 parameters"), "{error}");
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read(text in r"(library |a|::|=| |int |void |entry |\(|\)|,|\.\.\.|#|é|\n){0,30}") {
            let _ = parse("a", &text).map_err(|error| error.to_string());
        }
    }
}
