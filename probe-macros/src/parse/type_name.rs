//! The name that an `impl` gives to its methods: the last segment of its type, without generics.
//! Types without a name get a word: `ref-Type`, `slice-u8`, `dyn-Trait`, `tuple`.

use proc_macro2::{Delimiter, Ident, TokenStream, TokenTree};
use syn::ext::IdentExt;

use super::block::Angles;
use super::flatten;

/// Returns a name as it is written in paths.
pub(super) fn plain(name: &Ident) -> String {
    name.unraw().to_string()
}

/// Returns the name of the type of an `impl`, from the tokens after the word.
pub(super) fn implemented(head: &[TokenTree]) -> String {
    let mut flat = Vec::new();
    flatten(head.iter().cloned(), &mut flat);
    let mut rest = without_generics(&flat);
    let mut angles = Angles::default();
    let outside: Vec<bool> = rest.iter().map(|tree| angles.pass(tree)).collect();
    let word =
        |at: usize, wanted| outside[at] && matches!(&rest[at], TokenTree::Ident(word) if word == wanted);
    // A `for` before `<` belongs to the type: `for<'a> fn(&'a T)`.
    let is_for = |at: &usize| word(*at, "for") && !rest.get(at + 1).is_some_and(|next| is_punct(next, '<'));
    let end = (0..rest.len()).find(|at| word(*at, "where")).unwrap_or(rest.len());
    let start = (0..end).find(is_for).map_or(0, |at| at + 1);
    rest = &rest[start..end];
    of(rest)
}

/// Returns the tokens after a leading `<…>`, or all of them.
fn without_generics(trees: &[TokenTree]) -> &[TokenTree] {
    if !trees.first().is_some_and(|first| is_punct(first, '<')) {
        return trees;
    }
    let mut angles = Angles::default();
    // The closing bracket itself is not outside: it is the token before the first one outside.
    let end = trees.iter().position(|tree| angles.pass(tree)).unwrap_or(trees.len());
    &trees[end..]
}

fn of(trees: &[TokenTree]) -> String {
    match trees {
        [] => "type".to_owned(),
        [amp, rest @ ..] if is_punct(amp, '&') => match without_lifetime(rest) {
            [TokenTree::Ident(word), rest @ ..] if word == "mut" => format!("mut-{}", of(rest)),
            rest => format!("ref-{}", of(rest)),
        },
        [star, TokenTree::Ident(_), rest @ ..] if is_punct(star, '*') => format!("ptr-{}", of(rest)),
        [bang] if is_punct(bang, '!') => "never".to_owned(),
        [TokenTree::Group(group)] => group_of(group.delimiter(), group.stream()),
        [TokenTree::Ident(word), rest @ ..] if word == "dyn" => format!("dyn-{}", path(rest)),
        [TokenTree::Ident(word), rest @ ..] if word == "for" => of(without_generics(rest)),
        _ => path(trees),
    }
}

fn group_of(delimiter: Delimiter, contents: TokenStream) -> String {
    let mut flat = Vec::new();
    flatten(contents, &mut flat);
    if delimiter == Delimiter::Bracket {
        return match flat.iter().position(|tree| is_punct(tree, ';')) {
            Some(end) => format!("array-{}", of(&flat[..end])),
            None => format!("slice-{}", of(&flat)),
        };
    }
    let mut angles = Angles::default();
    match flat.as_slice() {
        [] => "unit".to_owned(),
        flat if flat.iter().any(|tree| angles.pass(tree) && is_punct(tree, ',')) => "tuple".to_owned(),
        flat => of(flat),
    }
}

/// Returns the last segment of the first path; `fn` for a function pointer.
fn path(mut trees: &[TokenTree]) -> String {
    while let [quote, TokenTree::Ident(_), plus, rest @ ..] = trees
        && is_punct(quote, '\'')
        && is_punct(plus, '+')
    {
        trees = rest;
    }
    let mut angles = Angles::default();
    let mut last = None;
    for tree in trees {
        let is_outside = angles.pass(tree);
        match tree {
            TokenTree::Ident(word) if is_outside && word != "for" => last = Some(plain(word)),
            // Ends before further bounds, and before the arguments of a function.
            TokenTree::Punct(punct) if is_outside && punct.as_char() == '+' => break,
            TokenTree::Group(_) if is_outside && last.is_some() => break,
            // `dyn (Trait)`.
            TokenTree::Group(group) if is_outside => return group_of(group.delimiter(), group.stream()),
            _ => {}
        }
    }
    last.unwrap_or_else(|| "type".to_owned())
}

fn without_lifetime(trees: &[TokenTree]) -> &[TokenTree] {
    match trees {
        [quote, TokenTree::Ident(_), rest @ ..] if is_punct(quote, '\'') => rest,
        _ => trees,
    }
}

fn is_punct(tree: &TokenTree, wanted: char) -> bool {
    matches!(tree, TokenTree::Punct(punct) if punct.as_char() == wanted)
}

#[cfg(test)]
mod tests {
    use quote::quote;

    use super::*;

    #[test]
    fn the_last_segment_or_a_word() {
        for (head, expected) in [
            (quote!(Stack), "Stack"),
            (quote!(<T: Into<U>, const N: usize> a::Stack<T, { N + 1 }> where T: Fn(u8) -> u8), "Stack"),
            (quote!(<T> fmt::Display for crate::Wrapper<T>), "Wrapper"),
            (quote!(!Send for S), "S"),
            (quote!(Trait<for<'a> fn(&'a u8)> for S), "S"),
            (quote!(Trait for for<'a> fn(&'a u8) -> u16), "fn"),
            (quote!(Trait for unsafe extern "C" fn(u8)), "fn"),
            (quote!(<T> Trait for <T as Other>::Assoc), "Assoc"),
            (quote!(<'a> Read for &'a mut File), "mut-File"),
            (quote!(<'a> Read for &'a File), "ref-File"),
            (quote!(Trait for *const u8), "ptr-u8"),
            (quote!(Trait for [u8]), "slice-u8"),
            (quote!(<const N: usize> Trait for [a::B<u8>; N]), "array-B"),
            (quote!(Trait for ()), "unit"),
            (quote!(Trait for (A, B)), "tuple"),
            (quote!(Trait for (A<B, C>)), "A"),
            (quote!(Trait for (dyn a::Shape + Send)), "dyn-Shape"),
            (quote!(dyn Fn(u8) -> u16 + Send), "dyn-Fn"),
            (quote!(dyn 'static + for<'a> Visit<'a>), "dyn-Visit"),
            (quote!(Trait for Box<dyn Fn(u8) -> u8>), "Box"),
            (quote!(Trait for !), "never"),
            (quote!(Trait for r#type), "type"),
            (quote!(Trait for m!(x)), "m"),
        ] {
            let trees: Vec<_> = head.clone().into_iter().collect();
            assert_eq!(implemented(&trees), expected, "{head}");
        }
    }
}
