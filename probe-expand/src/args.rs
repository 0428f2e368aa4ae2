//! Arguments of `#[probe(…)]`: tokens ▶ `key`, `key = value` and `key(list)`. Parsing can't
//! fail; `check` reports arguments that make no sense.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::ToTokens;

use crate::model::{Arg, Given};
use crate::parse::is_punct;

/// Splits the tokens at commas. Arguments are parsed one by one, so that a wrong one does not hide
/// those after it.
pub(crate) fn parse(tokens: TokenStream) -> Vec<Arg> {
    let mut args = Vec::new();
    let mut arg = Vec::new();
    for tree in tokens {
        if !is_punct(&tree, ',') {
            arg.push(tree);
        } else if arg.is_empty() {
            // The comma has no argument before it. It becomes an argument itself, which the check
            // refuses.
            args.push(one(vec![tree]));
        } else {
            args.push(one(std::mem::take(&mut arg)));
        }
    }
    if !arg.is_empty() {
        args.push(one(arg));
    }
    args
}

fn one(trees: Vec<TokenTree>) -> Arg {
    let (key, given) = match trees.as_slice() {
        [TokenTree::Ident(key), equals, value @ ..] if is_punct(equals, '=') => {
            (Some(key.clone()), Given::Value(value.iter().cloned().collect()))
        }
        [TokenTree::Ident(key), TokenTree::Group(list)] if list.delimiter() == Delimiter::Parenthesis => {
            (Some(key.clone()), Given::List(list.clone()))
        }
        [TokenTree::Ident(key)] => (Some(key.clone()), Given::Nothing),
        _ => (None, Given::Nothing),
    };
    Arg { tokens: trees.into_iter().map(TokenTree::into_token_stream).collect(), key, given }
}

#[cfg(test)]
mod tests {
    use quote::quote;

    use super::*;

    fn shown(tokens: TokenStream) -> Vec<String> {
        parse(tokens)
            .iter()
            .map(|arg| {
                let key = arg.key.as_ref().map_or("-".to_owned(), ToString::to_string);
                match &arg.given {
                    Given::Nothing => key,
                    Given::Value(value) => format!("{key}={value}"),
                    Given::List(list) => format!("{key}{list}"),
                }
            })
            .collect()
    }

    #[test]
    fn no_arguments() {
        assert!(shown(quote!()).is_empty());
    }

    #[test]
    fn keys_and_values() {
        let expected = [r#"name="a""#, "crate=:: x :: y"];
        assert_eq!(shown(quote!(name = "a", crate = ::x::y)), expected);
        assert_eq!(shown(quote!(name = "a", crate = ::x::y,)), expected);
    }

    #[test]
    fn incomplete_ones_are_kept_for_the_check() {
        assert_eq!(shown(quote!(name)), ["name"]);
        assert_eq!(shown(quote!(name("a"))), [r#"name("a")"#]);
        assert_eq!(shown(quote!(name["a"])), ["-"]);
        assert_eq!(shown(quote!(name =)), ["name="]);
        assert_eq!(shown(quote!("a")), ["-"]);
        assert_eq!(shown(quote!(name = "a",,)), [r#"name="a""#, "-"]);
    }
}
