//! Bodies that are one short expression: getters, setters, constructors, conversions, delegates.
//!
//! A site costs one NOP wherever the function's code lands, and stops the compiler from vectorising
//! a loop around it. That is negligible beside a function with a larger body, but multiplies the
//! cost of a function that reads a field (the bench `blocks`).

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// Greatest number of tokens: `self.entries.get(index).map(|entry| &entry.value)` has 17. A bracket
/// and its partner count as one.
const MAX_TOKENS: usize = 20;

/// Words that a short expression doesn't have, since they branch, loop, leave or wait.
const WORDS: [&str; 10] =
    ["async", "await", "break", "continue", "for", "if", "loop", "match", "return", "while"];

/// Returns whether the contents of these braces are at most one short expression, with or without a
/// semicolon.
pub(super) fn is_small(body: &TokenStream) -> bool {
    let mut trees: Vec<TokenTree> = body.clone().into_iter().collect();
    if matches!(trees.last(), Some(TokenTree::Punct(punct)) if punct.as_char() == ';') {
        trees.pop();
    }
    let mut left = MAX_TOKENS;
    is_short(trees, &mut left)
}

fn is_short(trees: impl IntoIterator<Item = TokenTree>, left: &mut usize) -> bool {
    trees.into_iter().all(|tree| {
        if let TokenTree::Group(group) = &tree
            && group.delimiter() == Delimiter::None
        {
            return is_short(group.stream(), left);
        }
        if *left == 0 {
            return false;
        }
        *left -= 1;
        match tree {
            TokenTree::Group(group) => is_short(group.stream(), left),
            TokenTree::Ident(word) => WORDS.iter().all(|known| word != known),
            TokenTree::Punct(punct) => punct.as_char() != ';',
            TokenTree::Literal(_) => true,
        }
    })
}
