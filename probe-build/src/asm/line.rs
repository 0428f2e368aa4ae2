//! Parses one line of assembly.
//!
//! Compilers print one statement a line. Other lines (several statements, C comments, character
//! constants) occur in inline assembly only. That is between `#APP` and `#NO_APP`, and is not
//! parsed here. Elsewhere such a line is [`Statement::Unclear`], and its function is left alone.

use super::statement::{is_data, is_debug, is_switch};
use crate::outcome::Cause;

/// A line, with the assembler's view of it.
#[derive(Debug)]
pub(super) struct Line<'a> {
    /// The whole line, with its line feed if it has one.
    pub text: &'a str,
    /// The labels that it defines, without quotes.
    pub labels: Vec<&'a str>,
    pub statement: Statement<'a>,
    /// The text after `#`, trimmed.
    pub comment: &'a str,
    /// Its number in the file, from 1. A `Line` may represent several lines of the file.
    pub number: u32,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Statement<'a> {
    /// Nothing, or a comment.
    Empty,
    /// `name` with its dot; `=` for an assignment, whose arguments are the symbol and the value.
    Directive {
        name: &'a str,
        arguments: &'a str,
    },
    Instruction(Instruction<'a>),
    /// `#APP`, or the start of clang's file-scope assembly: the user wrote the following lines.
    App,
    /// `#NO_APP`, or the end of clang's file-scope assembly: the compiler wrote the following
    /// lines.
    NoApp,
    /// A line of inline assembly.
    Inline,
    /// Lines of debug information: bytes and labels. They may be as numerous as all other lines, so
    /// they are merged into one.
    Debug,
    /// Not understood, with the reason.
    Unclear(&'static str),
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Instruction<'a> {
    /// `rep`, `lock`, `notrack`…
    pub prefixes: Vec<&'a str>,
    /// Empty for a line that holds only prefixes.
    pub mnemonic: &'a str,
    pub operands: Vec<&'a str>,
}

pub(super) const PREFIXES: [&str; 18] = [
    "rep", "repe", "repz", "repne", "repnz", "lock", "bnd", "notrack", "data16", "data32", "addr32", "rex64",
    "rex", "rex.W", "xacquire", "xrelease", "cs", "ds",
];

/// The reason why a file with such a comment can't be read line by line.
pub(super) const OPEN_COMMENT: &str = "a comment that goes on in the next line";

/// The lines with which clang frames all of a file's own assembly, before its first function.
const FILE_SCOPE: [&str; 2] =
    ["# Start of file scope inline assembly", "# End of file scope inline assembly"];

/// Parses `source`. A last line without a line feed is a line, too.
pub(super) fn lines(source: &str) -> Vec<Line<'_>> {
    let mut reader =
        LineReader { last: last_end(source), origin: Origin::Compiler, is_debug: false, start: 0 };
    let mut lines: Vec<Line<'_>> = Vec::new();
    for (text, number) in source.split_inclusive('\n').zip(1..) {
        match lines.last_mut().filter(|line| line.statement == Statement::Debug) {
            Some(run) if reader.is_debug && is_debug_data(text) => {
                run.text = &source[reader.start - run.text.len()..reader.start + text.len()];
                reader.start += text.len();
            }
            _ => lines.push(reader.line(text, number)),
        }
    }
    lines
}

/// Returns the end of clang's file-scope assembly. clang keeps the comments of that assembly, and
/// one of them may look like the end, so the last match is the end.
fn last_end(source: &str) -> Option<usize> {
    let end = FILE_SCOPE[1];
    source.rmatch_indices(end).map(|(at, _)| at).find(|at| {
        let before = source[..*at].rsplit('\n').next().unwrap_or_default();
        let after = source[at + end.len()..].split('\n').next().unwrap_or_default();
        before.trim().is_empty() && after.trim().is_empty()
    })
}

/// The author of the lines being read.
#[derive(PartialEq, Eq)]
enum Origin {
    Compiler,
    Inline,
    FileScope,
}

struct LineReader {
    /// The end of the file-scope assembly.
    last: Option<usize>,
    origin: Origin,
    /// Whether the section holds debug information.
    is_debug: bool,
    start: usize,
}

impl LineReader {
    fn line<'a>(&mut self, text: &'a str, number: u32) -> Line<'a> {
        let start = self.start;
        self.start += text.len();
        let plain = |statement, comment| Line { text, labels: Vec::new(), statement, comment, number };
        match text.trim() {
            word if self.origin == Origin::FileScope && self.last == Some(start + offset(text, word)) => {
                self.origin = Origin::Compiler;
                plain(Statement::NoApp, "")
            }
            word if self.origin == Origin::Compiler && word == FILE_SCOPE[0] => {
                self.origin = Origin::FileScope;
                plain(Statement::App, FILE_SCOPE[0])
            }
            "#APP" if self.origin == Origin::Compiler => {
                self.origin = Origin::Inline;
                plain(Statement::App, "")
            }
            "#NO_APP" if self.origin != Origin::FileScope => {
                self.origin = Origin::Compiler;
                plain(Statement::NoApp, "")
            }
            _ if self.origin != Origin::Compiler => plain(Statement::Inline, ""),
            _ if self.is_debug && is_debug_data(text) => plain(Statement::Debug, ""),
            _ => {
                let line = Line { number, ..line(text) };
                if let Statement::Directive { name, arguments } = line.statement {
                    self.is_debug = match name {
                        ".section" => is_debug(arguments.trim_start_matches('"')),
                        _ => self.is_debug && !is_switch(name),
                    };
                }
                line
            }
        }
    }
}

fn offset(text: &str, part: &str) -> usize {
    part.as_ptr().addr() - text.as_ptr().addr()
}

/// Returns whether a line in a section of debug information only emits bytes or is a label.
fn is_debug_data(text: &str) -> bool {
    let word = text.trim_ascii();
    let is_label =
        || word.strip_suffix(':').is_some_and(|label| label.starts_with(".L") && label.chars().all(symbolic));
    let is_bytes = || {
        let (name, rest) = word.split_once(['\t', ' ']).unwrap_or((word, ""));
        // Strings, comments, and other lines that may contain more than bytes are parsed like all
        // lines.
        is_data(name) && !rest.bytes().any(|byte| matches!(byte, b'/' | b'"' | b'\'' | b';' | b'_'))
    };
    if word.starts_with(".L") { is_label() } else { word.starts_with('.') && is_bytes() }
}

impl Line<'_> {
    /// Returns whether a file's own assembly begins here, in clang's output.
    pub(super) fn opens_file_scope(&self) -> bool {
        self.statement == Statement::App && self.comment == FILE_SCOPE[0]
    }
}

pub(super) fn line(text: &str) -> Line<'_> {
    let mut line = Line { text, labels: Vec::new(), statement: Statement::Empty, comment: "", number: 0 };
    let code = match split(text.trim()) {
        Ok((code, comment)) => {
            line.comment = comment;
            code
        }
        Err(why) => {
            line.statement = Statement::Unclear(why);
            return line;
        }
    };
    let mut rest = code.trim();
    while let Some((label, after)) = label(rest) {
        line.labels.reserve_exact(1);
        line.labels.push(label);
        rest = after.trim_start();
    }
    line.statement = statement(rest);
    line
}

/// Splits code and comment; an error if the line is more than one plain statement.
fn split(text: &str) -> Result<(&str, &str), &'static str> {
    let bytes = text.as_bytes();
    let mut quoted = false;
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if quoted => at += 1,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'#' => return Ok((&text[..at], text[at + 1..].trim())),
            b'/' if bytes.get(at + 1) == Some(&b'*') => {
                let closed = text[at + 2..].contains("*/");
                return Err(if closed { "a comment within the line" } else { OPEN_COMMENT });
            }
            b'/' if bytes.get(at + 1) == Some(&b'/') || at == 0 => return Err("a comment of another style"),
            // `rep;movsq` and older compilers' `rep; ret` are one instruction.
            b';' if !PREFIXES.contains(&text[..at].trim()) => return Err("several statements in a line"),
            b'\'' => return Err("a character constant"),
            0 => return Err("a zero byte"),
            _ => {}
        }
        at += 1;
    }
    if quoted { Err("a string without an end") } else { Ok((text, "")) }
}

/// Returns a label at the start, without quotes, and the text after its colon.
fn label(text: &str) -> Option<(&str, &str)> {
    if let Some(quoted) = text.strip_prefix('"') {
        let (name, rest) = quoted.split_once('"')?;
        return Some((name, rest.strip_prefix(':')?)).filter(|_| !name.is_empty() && !name.contains('\\'));
    }
    let end = text.find(|c| !symbolic(c))?;
    let rest = text[end..].strip_prefix(':')?;
    (end > 0).then_some((&text[..end], rest))
}

/// Returns whether an unquoted symbol's name may contain this character.
pub(super) fn symbolic(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$' | '?') || !c.is_ascii()
}

fn statement(text: &str) -> Statement<'_> {
    let (first, rest) = word(text);
    if first.is_empty() {
        return Statement::Empty;
    }
    let assignment = rest.strip_prefix('=').is_some_and(|value| !value.starts_with('='));
    if assignment || (!first.starts_with('"') && first.contains('=')) {
        // `symbol = value`: as `.set symbol, value`, but for the comma.
        return Statement::Directive { name: "=", arguments: text };
    }
    if first.starts_with('.') {
        return Statement::Directive { name: first, arguments: rest };
    }
    instruction(text).map_or(Statement::Unclear("what is neither a directive nor an instruction"), |it| {
        Statement::Instruction(it)
    })
}

fn instruction(mut text: &str) -> Option<Instruction<'_>> {
    let mut prefixes = Vec::new();
    loop {
        // `{vex3}`, `{disp32}`: the encoding of the following instruction.
        while let Some(pseudo) = text.strip_prefix('{') {
            text = pseudo.split_once('}')?.1.trim_start();
        }
        let (first, rest) = word(text);
        if PREFIXES.contains(&first) {
            prefixes.push(first);
            text = rest;
            continue;
        }
        let plain = first.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        if !plain || first.starts_with(|c: char| c.is_ascii_digit()) || (first.is_empty() && !text.is_empty())
        {
            return None;
        }
        return Some(Instruction { prefixes, mnemonic: first, operands: operands(rest) });
    }
}

/// Returns the first word and the rest, both trimmed.
fn word(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(|c: char| c.is_whitespace() || c == ';').unwrap_or(text.len());
    // A string may follow a directive without a space.
    let end = text[..end].find('"').filter(|_| text.starts_with('.')).unwrap_or(end);
    (&text[..end], text[end..].trim_start_matches(|c: char| c.is_whitespace() || c == ';'))
}

/// Splits at the commas that are not within parentheses, braces or quotes.
pub(super) fn operands(text: &str) -> Vec<&str> {
    let mut all = Vec::with_capacity(if text.is_empty() { 0 } else { 2 });
    let (mut depth, mut quoted, mut escaped, mut start) = (0_usize, false, false, 0);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'(' | b'{' => depth += 1,
            b')' | b'}' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                all.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    if !text[start..].trim().is_empty() || start > 0 {
        all.push(text[start..].trim());
    }
    all
}

/// Returns the statements of a line of inline assembly, without comments.
pub(super) fn statements(text: &str) -> Result<Vec<&str>, Cause> {
    let text = text.trim();
    if text.starts_with("//") || text.starts_with('/') {
        return Err(Cause::InlineAssembly("/".into()));
    }
    let (mut all, mut quoted, mut escaped, mut start) = (Vec::new(), false, false, 0);
    let bytes = text.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'/' if bytes.get(at + 1) == Some(&b'*') => {
                return Err(Cause::InlineAssembly(OPEN_COMMENT.into()));
            }
            b'\'' => return Err(Cause::InlineAssembly("'".into())),
            b'#' => {
                all.push(text[start..at].trim());
                return Ok(all);
            }
            b';' => {
                all.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    if quoted {
        return Err(Cause::InlineAssembly("a string without an end".into()));
    }
    all.push(text[start..].trim());
    Ok(all)
}

/// Returns a symbol's name without its quotes.
pub(super) fn unquoted(name: &str) -> &str {
    name.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Line<'_> {
        lines(text).pop().expect("a line")
    }

    #[test]
    fn statements() {
        let line = one("\tjmp\t*%rax\t# 17\t[c=4 l=2]  *tablejump_1\n");
        assert_eq!(line.comment, "17\t[c=4 l=2]  *tablejump_1");
        let jump = Instruction { prefixes: vec![], mnemonic: "jmp", operands: vec!["*%rax"] };
        assert_eq!(line.statement, Statement::Instruction(jump));
        let line = one("1:\tcall\tmcount");
        assert_eq!(line.labels, ["1"]);
        let section = one("\t.section\t.text.f,\"ax\",@progbits # \"#\"");
        let arguments = ".text.f,\"ax\",@progbits";
        assert_eq!(section.statement, Statement::Directive { name: ".section", arguments });
        assert_eq!(one("\"a b\": # @\"a b\"").labels, ["a b"]);
        assert_eq!(one(".L1=.L2").statement, Statement::Directive { name: "=", arguments: ".L1=.L2" });
        assert_eq!(one("a = b").statement, Statement::Directive { name: "=", arguments: "a = b" });
    }

    #[test]
    fn operands_with_commas_of_their_own() {
        assert_eq!(
            operands("8(%rax,%rbx,4), %xmm0{%k1}, \"a,b\"(%rip)"),
            ["8(%rax,%rbx,4)", "%xmm0{%k1}", "\"a,b\"(%rip)"]
        );
        assert_eq!(operands(""), [""; 0]);
        assert_eq!(operands("a,"), ["a", ""]);
    }

    #[test]
    fn prefixes() {
        for text in ["rep ret", "rep; ret", "rep ; ret # 3"] {
            let ret = Instruction { prefixes: vec!["rep"], mnemonic: "ret", operands: vec![] };
            assert_eq!(one(text).statement, Statement::Instruction(ret), "{text}");
        }
        let copy = ["(%rsi)", "%es:(%rdi)"];
        let copy = Instruction { prefixes: vec!["rep"], mnemonic: "movsq", operands: copy.to_vec() };
        assert_eq!(one("\trep;movsq\t(%rsi), %es:(%rdi)").statement, Statement::Instruction(copy));
        let alone = Instruction { prefixes: vec!["data16"], mnemonic: "", operands: vec![] };
        assert_eq!(one("\tdata16").statement, Statement::Instruction(alone));
    }

    #[test]
    fn unclear() {
        for (text, why) in [
            ("nop; nop", "several statements in a line"),
            ("nop /* x */", "a comment within the line"),
            ("nop /* x", OPEN_COMMENT),
            ("movb $'a, %al", "a character constant"),
            (".ascii \"x", "a string without an end"),
            ("; ModuleID", "several statements in a line"),
            ("%rax", "what is neither a directive nor an instruction"),
        ] {
            assert_eq!(one(text).statement, Statement::Unclear(why), "{text}");
        }
    }

    #[test]
    fn inline_assembly_is_not_taken_apart() {
        let all = lines("nop\n#APP\n# 3 \"a.c\" 1\n\tjmp 1f; 1:\n#NO_APP\nret\n");
        assert_eq!(all[2].statement, Statement::Inline);
        assert_eq!(all[3].statement, Statement::Inline);
        assert_eq!(all[4].statement, Statement::NoApp);
        assert!(matches!(all[5].statement, Statement::Instruction(_)));
    }
}
