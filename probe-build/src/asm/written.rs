//! Functions that are written in assembly, in a file's `asm("…")`. They are named, and left
//! alone.
//!
//! Such a function may use an unknown convention: it may return flags, or expect a register to
//! survive.

use super::line::{Line, Statement, operands, unquoted};
use std::collections::HashSet;

/// A function that is written in assembly.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Written<'a> {
    pub symbol: &'a str,
    /// The line of its label, from 0.
    pub label: usize,
    pub instructions: usize,
}

/// Returns the functions of a file's inline assembly: labels that a `.type` declares as functions.
pub(super) fn functions<'a>(lines: &[Line<'a>]) -> Vec<Written<'a>> {
    let inline = || lines.iter().enumerate().filter(|(_, line)| line.statement == Statement::Inline);
    let mut types = HashSet::new();
    for (_, line) in inline() {
        for statement in statements(line.text) {
            if let Some([symbol, kind]) = statement.strip_prefix(".type").map(operands).as_deref()
                && matches!(kind.trim_start_matches(['@', '%', '#']), "function" | "STT_FUNC")
            {
                types.insert(unquoted(symbol));
            }
        }
    }
    if types.is_empty() {
        return Vec::new();
    }
    let mut functions: Vec<Written<'a>> = Vec::new();
    let mut is_open = false;
    for (at, line) in lines.iter().enumerate() {
        if line.statement != Statement::Inline {
            is_open = false;
            continue;
        }
        for mut statement in statements(line.text) {
            while let Some((label, rest)) = statement.split_once(':')
                && !label.contains(char::is_whitespace)
            {
                statement = rest.trim_start();
                let symbol = unquoted(label);
                if types.remove(symbol) {
                    is_open = true;
                    functions.push(Written { symbol, label: at, instructions: 0 });
                }
            }
            is_open &= !statement.starts_with(".size");
            let is_instruction = is_open && statement.starts_with(|c: char| c.is_ascii_alphabetic());
            if let Some(last) = functions.last_mut().filter(|_| is_instruction) {
                last.instructions += 1;
            }
        }
    }
    functions
}

/// Splits a text into statements, as far as names are concerned.
fn statements(text: &str) -> impl Iterator<Item = &str> {
    let code = text.split('#').next().unwrap_or(text);
    code.split(';').map(str::trim).filter(|statement| !statement.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::asm::line::lines;

    #[test]
    fn only_labels_with_a_function_type_are_functions() {
        let text = "\
#APP
.type a, @function; .type b,%function
.type d,@object
a: btq $0,%rdi; ret # isodd:
.size a, .-a
 nop
b: x:
 ret
d: .long 3
#NO_APP
a:
";
        let [a, b] = &functions(&lines(text))[..] else { panic!("two functions") };
        assert_eq!(a, &Written { symbol: "a", label: 3, instructions: 2 });
        assert_eq!(b, &Written { symbol: "b", label: 6, instructions: 1 });
        assert_eq!(functions(&lines("\t.type f, @function\nf:\n\tret\n")), []);
    }
}
