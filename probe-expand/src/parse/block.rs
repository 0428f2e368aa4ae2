//! The contents of an `impl`, `trait` or `mod`: functions, blocks, and other items.
//!
//! They are scanned, as functions are: unknown items pass through unchanged. An item ends at its
//! braces or at a semicolon outside of all brackets, angle brackets too.
//!
//! The name that an `impl` gives to its methods is the last segment of its type, without generics.
//! Types without a name get a word: `ref-Type`, `slice-u8`, `dyn-Trait`, `tuple`.

use proc_macro2::{Delimiter, Group, Ident, Spacing, TokenStream, TokenTree};
use syn::ext::IdentExt;

use super::{QUALIFIERS, flatten, is_punct, split_attributes, split_visibility};
use crate::model::{Block, Element, Function, Inside, Own};

/// Items that end only at a semicolon, since their braces belong to a value or a list.
const TO_SEMICOLON: [&str; 4] = ["const", "static", "type", "use"];

/// Returns a block from its head (from the keyword on) and its body.
pub(super) fn block(
    attributes: Vec<Group>,
    keyword: &Ident,
    head: TokenStream,
    after: &[TokenTree],
    body: Group,
) -> Block {
    let inside = if keyword == "mod" { Inside::Module } else { Inside::Methods };
    let prefix = match after {
        [TokenTree::Ident(name), ..] if keyword == "trait" => Some(name.unraw().to_string()),
        _ if keyword == "impl" => Some(type_of_impl(after)),
        _ => None,
    };
    let elements = elements(body.stream());
    Block { attributes, inside, prefix, head, body, elements }
}

/// Splits the body into items.
fn elements(body: TokenStream) -> Vec<Element> {
    let mut trees: Vec<TokenTree> = body.into_iter().collect();
    let mut elements = Vec::new();
    let mut at = 0;
    while at < trees.len() {
        splice_item(&mut trees, at);
        let len = item_len(&trees[at..]);
        elements.push(element(&trees[at..at + len]));
        at += len;
    }
    elements
}

#[cfg(feature = "find")]
/// An item that begins at a place where one may begin.
pub(crate) enum Beginning {
    FunctionOrBlock,
    /// `mod name;`.
    ModuleInFile(String),
}

#[cfg(feature = "find")]
/// Tells what begins here, if it has or names functions.
pub(crate) fn beginning(trees: &[TokenTree]) -> Option<Beginning> {
    let mut at = attributes_len(trees);
    at += visibility_len(&trees[at..]);
    at += qualifiers(&trees[at..]).len();
    match &trees[at..] {
        [TokenTree::Ident(word), TokenTree::Ident(_), ..] if word == "fn" => Some(Beginning::FunctionOrBlock),
        [TokenTree::Ident(word), TokenTree::Ident(name), end, ..] if word == "mod" => match end {
            TokenTree::Punct(_) if is_punct(end, ';') => {
                Some(Beginning::ModuleInFile(name.unraw().to_string()))
            }
            _ => Some(Beginning::FunctionOrBlock),
        },
        [TokenTree::Ident(word), ..] if word == "impl" || word == "trait" => Some(Beginning::FunctionOrBlock),
        _ => None,
    }
}

/// Replaces a `$item` of a `macro_rules!`, a group without delimiters, by its contents.
fn splice_item(trees: &mut Vec<TokenTree>, start: usize) {
    loop {
        let at = start + attributes_len(&trees[start..]);
        let Some(TokenTree::Group(group)) = trees.get(at) else { return };
        let is_called = trees.get(at + 1).is_some_and(|next| is_punct(next, '!'));
        if group.delimiter() != Delimiter::None || is_called || is_visibility(group) {
            return;
        }
        let contents = group.stream();
        trees.splice(at..=at, contents);
    }
}

/// Returns whether this group without delimiters is a `$vis`.
fn is_visibility(group: &Group) -> bool {
    let mut flat = Vec::new();
    flatten(group.stream(), &mut flat);
    split_visibility(&flat).is_empty()
}

fn attributes_len(trees: &[TokenTree]) -> usize {
    let mut at = 0;
    while let [hash, TokenTree::Group(_), ..] = &trees[at..]
        && is_punct(hash, '#')
    {
        at += 2;
    }
    at
}

/// Returns the place of the item's visibility, qualifiers and keyword, behind its attributes.
fn visibility_len(trees: &[TokenTree]) -> usize {
    match trees {
        [TokenTree::Group(group), ..] if group.delimiter() == Delimiter::None => 1,
        [TokenTree::Ident(word), TokenTree::Group(_), ..] if word == "pub" => 2,
        [TokenTree::Ident(word), ..] if word == "pub" => 1,
        _ => 0,
    }
}

/// Returns the number of tokens of the item that begins here.
pub(crate) fn item_len(trees: &[TokenTree]) -> usize {
    if let [hash, bang, TokenTree::Group(_), ..] = trees
        && is_punct(hash, '#')
        && is_punct(bang, '!')
    {
        return 3;
    }
    let mut at = attributes_len(trees);
    at += visibility_len(&trees[at..]);
    let is_function = is_function(&trees[at..]);
    let to_semicolon = !is_function
        && matches!(&trees[at..], [TokenTree::Ident(word), ..] if TO_SEMICOLON.iter().any(|known| word == known))
        && !is_const_impl(&trees[at..]);
    let end = end(&trees[at..], !to_semicolon);
    // The item ends with the tokens at the latest, and has at least one token.
    end.map_or(trees.len(), |end| at + end + 1).max(1)
}

/// Returns whether it is a function, whatever its qualifiers.
fn is_function(trees: &[TokenTree]) -> bool {
    let rest = &trees[qualifiers(trees).len()..];
    matches!(rest, [TokenTree::Ident(word), TokenTree::Ident(_), ..] if word == "fn")
}

fn is_const_impl(trees: &[TokenTree]) -> bool {
    matches!(&trees[qualifiers(trees).len()..], [TokenTree::Ident(word), ..] if word == "impl" || word == "trait")
}

/// Returns the words (and the string of `extern "C"`) before the keyword.
fn qualifiers(trees: &[TokenTree]) -> &[TokenTree] {
    let is_qualifier = |tree: &TokenTree| match tree {
        TokenTree::Ident(word) => QUALIFIERS.iter().any(|known| word == known),
        TokenTree::Literal(_) => true,
        _ => false,
    };
    let len = trees.iter().take_while(|tree| is_qualifier(tree)).count();
    &trees[..len]
}

/// Returns the place of the first semicolon, or of the first braces outside of angle brackets if
/// `braces`.
fn end(trees: &[TokenTree], braces: bool) -> Option<usize> {
    let mut angles = Angles::default();
    trees.iter().position(|tree| {
        let is_outside = angles.pass(tree);
        is_punct(tree, ';') || braces && is_outside && super::braces(tree.clone()).is_ok()
    })
}

/// Counts open angle brackets. The `>` of an arrow is not one.
#[derive(Default)]
pub(super) struct Angles {
    open: usize,
    after_minus: bool,
}

impl Angles {
    /// Returns whether this token lies outside of all of them; an angle bracket itself does not.
    pub(super) fn pass(&mut self, tree: &TokenTree) -> bool {
        let was_minus = std::mem::replace(
            &mut self.after_minus,
            matches!(tree, TokenTree::Punct(punct) if "-=".contains(punct.as_char()) && punct.spacing() == Spacing::Joint),
        );
        if is_punct(tree, '<') {
            self.open += 1;
            return false;
        }
        if is_punct(tree, '>') && !was_minus {
            self.open = self.open.saturating_sub(1);
            return false;
        }
        self.open == 0
    }
}

/// Parses one item.
pub(crate) fn element(trees: &[TokenTree]) -> Element {
    let other = || Element::Other(trees.iter().cloned().collect());
    let start = attributes_len(trees);
    let (attributes, _) = split_attributes(&trees[..start]);
    let at = start + visibility_len(&trees[start..]);
    let Some((last, head)) = trees[at..].split_last() else { return other() };
    let words = qualifiers(head);
    let [TokenTree::Ident(keyword), after @ ..] = &head[words.len()..] else { return other() };
    let body = super::braces(last.clone());
    let kept = |own: &[bool]| -> TokenStream {
        let pairs = trees[..start].chunks(2).zip(own).filter(|(_, own)| !**own).flat_map(|(pair, _)| pair);
        pairs.chain(&trees[start..trees.len() - 1]).cloned().collect()
    };
    let is_own: Vec<bool> = attributes.iter().map(|attribute| own(attribute).is_some()).collect();
    let owns: Vec<Own> = attributes.iter().filter_map(own).collect();
    let others: Vec<Group> =
        attributes.iter().zip(&is_own).filter(|(_, own)| !**own).map(|(group, _)| group.clone()).collect();
    match (after, body) {
        ([TokenTree::Ident(name), ..], body) if keyword == "fn" => {
            let qualifiers = words.iter().filter_map(|word| match word {
                TokenTree::Ident(word) => Some(word.clone()),
                _ => None,
            });
            let function = Function {
                attributes: others,
                qualifiers: qualifiers.collect(),
                name: name.clone(),
                head: kept(&is_own),
                body,
            };
            Element::Function(owns, function)
        }
        (_, Ok(body)) if ["impl", "trait", "mod"].iter().any(|known| keyword == known) => {
            Element::Block(owns, block(others, keyword, kept(&is_own), after, body))
        }
        _ => other(),
    }
}

/// Returns the arguments of `#[probe]`, `#[probe(…)]`, `#[a::probe]`.
pub(crate) fn own(attribute: &Group) -> Option<Own> {
    let mut trees = Vec::new();
    flatten(attribute.stream(), &mut trees);
    let (args, path) = match trees.split_last()? {
        (TokenTree::Group(group), path) if group.delimiter() == Delimiter::Parenthesis => {
            (Some(group.stream()), path)
        }
        _ => (None, trees.as_slice()),
    };
    let is_path = path.iter().all(|tree| matches!(tree, TokenTree::Ident(_)) || is_punct(tree, ':'));
    match path.split_last()? {
        (TokenTree::Ident(word), before)
            if is_path && word == "probe" && before.last().is_none_or(|tree| is_punct(tree, ':')) =>
        {
            Some(Own { word: word.clone(), args: args.unwrap_or_default() })
        }
        _ => None,
    }
}

/// Returns the name of the type of an `impl`, from the tokens after the word.
fn type_of_impl(head: &[TokenTree]) -> String {
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
    type_name(rest)
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

fn type_name(trees: &[TokenTree]) -> String {
    match trees {
        [] => "type".to_owned(),
        [amp, rest @ ..] if is_punct(amp, '&') => match without_lifetime(rest) {
            [TokenTree::Ident(word), rest @ ..] if word == "mut" => format!("mut-{}", type_name(rest)),
            rest => format!("ref-{}", type_name(rest)),
        },
        [star, TokenTree::Ident(_), rest @ ..] if is_punct(star, '*') => format!("ptr-{}", type_name(rest)),
        [bang] if is_punct(bang, '!') => "never".to_owned(),
        [TokenTree::Group(group)] => group_of(group.delimiter(), group.stream()),
        [TokenTree::Ident(word), rest @ ..] if word == "dyn" => format!("dyn-{}", path(rest)),
        [TokenTree::Ident(word), rest @ ..] if word == "for" => type_name(without_generics(rest)),
        _ => path(trees),
    }
}

fn group_of(delimiter: Delimiter, contents: TokenStream) -> String {
    let mut flat = Vec::new();
    flatten(contents, &mut flat);
    if delimiter == Delimiter::Bracket {
        return match flat.iter().position(|tree| is_punct(tree, ';')) {
            Some(end) => format!("array-{}", type_name(&flat[..end])),
            None => format!("slice-{}", type_name(&flat)),
        };
    }
    let mut angles = Angles::default();
    match flat.as_slice() {
        [] => "unit".to_owned(),
        flat if flat.iter().any(|tree| angles.pass(tree) && is_punct(tree, ',')) => "tuple".to_owned(),
        flat => type_name(flat),
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
            TokenTree::Ident(word) if is_outside && word != "for" => last = Some(word.unraw().to_string()),
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
            assert_eq!(type_of_impl(&trees), expected, "{head}");
        }
    }
}
