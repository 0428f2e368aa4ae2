//! Counting calls by hand: a copy of the sources with one more statement in some functions.

use std::ops::Range;

use super::Counted;

/// The counters' name in the library.
pub const NAME: &str = "counted_calls";

/// The text of a file with a counter in each of these functions. Each has its number in the array of counters.
///
/// # Panics
/// If a function is not defined in there exactly once.
pub(super) fn counting(text: &str, functions: &[(usize, &Counted)]) -> String {
    let mut bodies: Vec<_> = functions.iter().map(|(number, it)| (body(text, it.name), *number)).collect();
    bodies.sort_unstable();
    let mut counting = format!("{}\n", declaration("extern "));
    let mut done = 0;
    for (at, number) in bodies {
        counting += &text[done..at];
        counting += &format!(" {NAME}[{number}]++; ");
        done = at;
    }
    counting + &text[done..]
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

/// Where the body of the function with this name begins: after the brace that follows its parameters.
fn body(text: &str, name: &str) -> usize {
    let code = Code(text);
    let found: Vec<_> = text.match_indices(name).filter_map(|(at, _)| code.body_after(at..at + name.len())).collect();
    let [body] = *found else { panic!("{name} is defined {} times", found.len()) };
    body
}

/// Source text whose comments don't count.
struct Code<'a>(&'a str);

impl Code<'_> {
    fn body_after(&self, name: Range<usize>) -> Option<usize> {
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte == b':';
        let bytes = self.0.as_bytes();
        let before = name.start.checked_sub(1).and_then(|at| bytes.get(at));
        if before.is_some_and(is_part) || bytes.get(name.end) != Some(&b'(') {
            return None;
        }
        let mut depth = 0_usize;
        let mut at = name.end;
        loop {
            at = self.after_comments(at);
            match bytes.get(at)? {
                b'(' => depth += 1,
                b')' if depth == 1 => break,
                b')' => depth -= 1,
                _ => {}
            }
            at += 1;
        }
        at += 1;
        while bytes.get(self.after_comments(at))?.is_ascii_whitespace() {
            at = self.after_comments(at) + 1;
        }
        let at = self.after_comments(at);
        (bytes.get(at) == Some(&b'{')).then_some(at + 1)
    }

    fn after_comments(&self, mut at: usize) -> usize {
        loop {
            let rest = &self.0.as_bytes()[at..];
            let end = |text: &str| self.0[at..].find(text).map(|length| at + length + text.len());
            match rest {
                [b'/', b'*', ..] => at = end("*/").unwrap_or(self.0.len()),
                [b'/', b'/', ..] => at = end("\n").unwrap_or(self.0.len()),
                _ => return at,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "int f(int); /* f(1) { */\nint unf(int a) {}\n#define F f(2)\nint f( /* ) { */ int (*a)(int))\n{ if (f(1)) { g(a); } }";

    #[test]
    fn a_definition_is_told_from_calls_and_declarations() {
        let body = body(TEXT, "f");
        assert_eq!(&TEXT[body - 3..body], ")\n{");
        let counted = Counted { file: "", name: "f", path: "f" };
        let counting = counting(TEXT, &[(3, &counted)]);
        assert!(counting.ends_with("int (*a)(int))\n{ counted_calls[3]++;  if (f(1)) { g(a); } }"), "{counting}");
        assert_eq!(counting.matches("counted_calls[3]").count(), 1);
    }

    #[test]
    #[should_panic(expected = "g is defined 0 times")]
    fn a_function_that_is_not_there_is_named() {
        body(TEXT, "g");
    }
}
