//! Which functions only look at values: no loops, and no calls but of methods without arguments, in
//! operands and conditions, or named `as_…`.
//!
//! A latent probe costs such a function more than its instructions: the compiler no longer merges
//! equal calls of it, nor moves one out of a loop. XRay leaves functions out by the same measure:
//! those without a loop, and with fewer than 200 instructions.

use proc_macro2::{Delimiter, Group, Ident, TokenStream, TokenTree};

use crate::model::Function;
use crate::parse::is_punct;

/// Greatest number of tokens. A bracket and its partner count as one.
const MAX_TOKENS: usize = 200;

/// Words that loop, wait, or hold code of their own.
const WORDS: [&str; 8] = ["async", "await", "for", "fn", "impl", "loop", "move", "while"];

/// Words before parentheses that are no names of functions.
const KEYWORDS: [&str; 7] = ["as", "else", "if", "let", "match", "mut", "return"];

/// Returns whether a function is a leaf: a future never is, since its text does not show the cost
/// of polling it.
pub(crate) fn is_leaf(function: &Function) -> bool {
    let is_leaf = |body: &Group| are_leaf(body.stream(), &mut { MAX_TOKENS });
    !function.is("async") && function.body.as_ref().is_ok_and(is_leaf)
}

fn are_leaf(tokens: TokenStream, left: &mut usize) -> bool {
    let trees: Vec<TokenTree> = tokens.into_iter().collect();
    trees.iter().enumerate().all(|(at, tree)| {
        if *left == 0 {
            return false;
        }
        *left -= 1;
        match tree {
            TokenTree::Group(group) => {
                !is_call(&trees[..at], group, trees.get(at + 1)) && are_leaf(group.stream(), left)
            }
            TokenTree::Ident(word) => WORDS.iter().all(|known| word != known),
            // `?` calls conversions of errors.
            TokenTree::Punct(punct) => punct.as_char() != '?',
            TokenTree::Literal(_) => true,
        }
    })
}

/// Returns whether this group has the arguments of a call, except of a method that has none and
/// whose value is an operand or a condition.
fn is_call(before: &[TokenTree], group: &Group, next: Option<&TokenTree>) -> bool {
    let is_keyword = |word: &Ident| KEYWORDS.iter().any(|known| word == known);
    let is_method = |before: &[TokenTree]| before.last().is_some_and(|it| is_punct(it, '.'));
    match before {
        // A macro, unless a keyword stands before a negation.
        [.., TokenTree::Ident(word), bang] if is_punct(bang, '!') => !is_keyword(word),
        _ if group.delimiter() != Delimiter::Parenthesis => false,
        [receiver @ .., TokenTree::Ident(name)] if is_method(receiver) => {
            // By the conventions of names, such a conversion costs nothing.
            let is_free = name.to_string().starts_with("as_");
            !group.stream().is_empty() || !is_free && !next.is_some_and(uses_value)
        }
        // A capitalized name is that of a variant or a structure, and makes a value.
        [.., TokenTree::Ident(name)] => {
            !is_keyword(name) && !name.to_string().starts_with(char::is_uppercase)
        }
        // A function that is the value of an expression.
        [.., TokenTree::Group(called)] => called.delimiter() != Delimiter::Brace,
        // The end of generic arguments, or the comparison that looks like it; but not `=>`.
        [.., arrow, end] => is_punct(end, '>') && !is_punct(arrow, '='),
        _ => false,
    }
}

/// Returns whether the value before this token is an operand or a condition.
fn uses_value(next: &TokenTree) -> bool {
    match next {
        TokenTree::Group(block) => block.delimiter() == Delimiter::Brace,
        TokenTree::Punct(operator) => !matches!(operator.as_char(), ',' | ';' | '?'),
        TokenTree::Ident(word) => word == "as",
        TokenTree::Literal(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(text: &str) -> bool {
        are_leaf(text.parse().unwrap(), &mut { MAX_TOKENS })
    }

    #[test]
    fn choices_and_assignments() {
        for text in [
            "",
            "self.show = show; self",
            "if self.0 == 0 { Null } else if self.0.is_ascii() { Ascii } else { Other(self.0) }",
            "use Kind::*; match self { A if !(b && c) => &TABLE[(self.0 - b' ') as usize], A | B => (1, 2) }",
            "match a { A => B.as_bytes(), C => D }",
            "let n = -(a + 1); if !(n < 3) { return (n, 4); } Self(n, 5)",
            "if a.len() == 0 || b.c().d() { 1 } else { a.len() as u8 }",
        ] {
            assert!(body(text), "{text}");
        }
    }

    #[test]
    fn loops_calls_and_long_texts() {
        for text in [
            "for a in b { }",
            "while a { }",
            "loop { }",
            "a.b(c)",
            "a::b(c)",
            "A::new(b)",
            "a()(b)",
            "a()",
            "self.count += 1; self.run()",
            "a.as_b(c)",
            "self.read(); self.draw();",
            "let a = self.read(); a",
            "match self { A(a) => a.run(), B => 1 }",
            "a::<B>(c)",
            "print!(\"a\")",
            "a!{}",
            "a()?",
            "a.await",
            "if a { b(c) }",
            "fn a() {}",
        ] {
            assert!(!body(text), "{text}");
        }
        let additions = |tokens: usize| format!("a{}", "+a".repeat((tokens - 1) / 2));
        assert!(body(&additions(199)));
        assert!(!body(&additions(201)));
    }
}
