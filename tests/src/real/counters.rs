//! Counting calls by hand: a copy of the sources with one more statement in some functions.

use std::ops::Range;

use super::Counted;

/// The counters' name in the library.
pub const NAME: &str = "counted_calls";

/// The text of a file with a counter in each of these functions. Each has its number in the array
/// of counters.
///
/// # Panics
/// If a function is not defined in there exactly once.
pub(super) fn counting(text: &str, functions: &[(usize, &Counted)]) -> String {
    let mut bodies: Vec<_> = functions.iter().map(|(number, it)| (body(text, it.name), *number)).collect();
    bodies.sort_unstable();
    let mut counting = vec![declaration("extern "), "\n".to_owned()];
    let mut done = 0;
    for (at, number) in bodies {
        counting.push(format!("{} {NAME}[{number}]++; ", &text[done..at]));
        done = at;
    }
    counting.push(text[done..].to_owned());
    counting.concat()
}

/// A file that defines the counters, C or C++.
pub(super) fn definition(counters: usize) -> String {
    format!(
        "{}\n__attribute__((visibility(\"default\"))) unsigned long {NAME}[{counters}];\n",
        declaration("extern ")
    )
}

fn declaration(linkage: &str) -> String {
    format!(
        "#ifdef __cplusplus\nextern \"C\" {{\n#endif\n{linkage}unsigned long {NAME}[];\n#ifdef __cplusplus\n}}\n#endif"
    )
}

/// Returns where the body of the function with this name begins: after the brace that follows its
/// parameters.
fn body(text: &str, name: &str) -> usize {
    let code = code(text);
    let found: Vec<_> = text
        .match_indices(name)
        .filter(|(at, _)| code[*at] == name.as_bytes()[0])
        .filter_map(|(at, _)| body_after(&code, at..at + name.len()))
        .collect();
    let [body] = *found else { panic!("{name} is defined {} times", found.len()) };
    body
}

fn body_after(code: &[u8], name: Range<usize>) -> Option<usize> {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte == b':';
    let before = name.start.checked_sub(1).and_then(|at| code.get(at));
    if before.is_some_and(is_part) || code.get(name.end) != Some(&b'(') {
        return None;
    }
    let mut depth = 0_usize;
    let mut rest = code.iter().enumerate().skip(name.end);
    rest.find(|(_, byte)| {
        depth += usize::from(**byte == b'(');
        depth -= usize::from(**byte == b')');
        depth == 0
    })?;
    let (at, byte) = rest.find(|(_, byte)| !byte.is_ascii_whitespace())?;
    (*byte == b'{').then_some(at + 1)
}

/// The text with blanks instead of comments and literals.
fn code(text: &str) -> Vec<u8> {
    let mut code = text.as_bytes().to_vec();
    let mut at = 0;
    while at < code.len() {
        let end = |pattern: &str, from: usize| text[from..].find(pattern).map_or(text.len(), |it| from + it);
        let length = match &code[at..] {
            [b'/', b'*', ..] => end("*/", at + 2) + 2 - at,
            [b'/', b'/', ..] => end("\n", at) - at,
            [quote @ (b'"' | b'\''), ..] => literal(&code[at..], *quote),
            _ => {
                at += 1;
                continue;
            }
        };
        let end = code.len().min(at + length);
        code[at..end].fill(b' ');
        at = end;
    }
    code
}

/// The length of a literal, which ends on its line.
fn literal(code: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < code.len() && code[at] != quote && code[at] != b'\n' {
        at += if code[at] == b'\\' { 2 } else { 1 };
    }
    at + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "char q = '\\'', *s = \"f(3) {\"; // don't f(4) {\nint f(int); /* f(1) { */\nint unf(int a) {}\n#define F f(2)\nint f( /* ) { */ int (*a)(int))\n{ if (f(1)) { g(a); } }";

    #[test]
    fn a_definition_is_told_from_calls_and_declarations() {
        let body = body(TEXT, "f");
        assert_eq!(&TEXT[body - 3..body], ")\n{");
        let counted = Counted { file: "", name: "f", path: "f" };
        let counting = counting(TEXT, &[(3, &counted)]);
        assert!(
            counting.ends_with("int (*a)(int))\n{ counted_calls[3]++;  if (f(1)) { g(a); } }"),
            "{counting}"
        );
        assert_eq!(counting.matches("counted_calls[3]").count(), 1);
    }

    #[test]
    #[should_panic(expected = "g is defined 0 times")]
    fn a_function_that_is_not_there_is_named() {
        body(TEXT, "g");
    }
}
