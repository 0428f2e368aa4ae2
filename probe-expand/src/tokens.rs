//! Tokens: bodies with other contents, texts and paths at a place; and `probe!(…)` in the body of a
//! `#[probe]` function.
//!
//! Stable Rust has one namespace for all macros, so `use probe_runtime::probe` brings in the
//! attribute, and a `probe!(…)` beside it would resolve to that attribute. The attribute
//! therefore redirects each unqualified `probe!(…)` of its function's body.

use proc_macro2::{Group, Ident, Literal, Spacing, Span, TokenStream, TokenTree};
use quote::quote_spanned;

use crate::model::Settings;

/// Returns `tokens` with every `probe!(…)`, however deep, replaced by the result of `replace`,
/// which gets the name `probe` and the arguments.
///
/// Returns `None` if there is no `probe!(…)`: the caller then keeps the user's own groups. A
/// rebuilt group has one span for its two delimiters, which would blur rustc's messages.
pub(crate) fn rewrite(
    tokens: TokenStream,
    replace: &mut dyn FnMut(&Ident, Group) -> TokenStream,
) -> Option<TokenStream> {
    let trees: Vec<TokenTree> = tokens.into_iter().collect();
    let mut out = TokenStream::new();
    let mut changed = false;
    let mut at = 0;
    while let Some(tree) = trees.get(at) {
        if let Some((name, group)) = call_at(&trees, at) {
            let group = rewrite_group(group, replace).unwrap_or_else(|| group.clone());
            out.extend(replace(name, group));
            changed = true;
            at += 3;
            continue;
        }
        let new = match tree {
            TokenTree::Group(group) => rewrite_group(group, replace),
            _ => None,
        };
        changed |= new.is_some();
        out.extend([new.map_or_else(|| tree.clone(), TokenTree::Group)]);
        at += 1;
    }
    changed.then_some(out)
}

fn rewrite_group(group: &Group, replace: &mut dyn FnMut(&Ident, Group) -> TokenStream) -> Option<Group> {
    rewrite(group.stream(), replace).map(|stream| rebuilt(group, stream))
}

/// Returns `group` with other contents.
pub(crate) fn rebuilt(group: &Group, stream: TokenStream) -> Group {
    let mut new = Group::new(group.delimiter(), stream);
    new.set_span(group.span());
    new
}

/// Returns the name and the arguments if `trees[at..]` begins with an unqualified `probe!(…)`.
fn call_at(trees: &[TokenTree], at: usize) -> Option<(&Ident, &Group)> {
    let [TokenTree::Ident(name), TokenTree::Punct(bang), TokenTree::Group(group), ..] = trees.get(at..)?
    else {
        return None;
    };
    (name == "probe" && bang.as_char() == '!' && !is_qualified(&trees[..at])).then_some((name, group))
}

/// Returns whether a path (`a::`), or the `$` of a macro variable, ends just before.
fn is_qualified(before: &[TokenTree]) -> bool {
    match before {
        [.., TokenTree::Punct(first), TokenTree::Punct(second)] if second.as_char() == ':' => {
            first.as_char() == ':' && first.spacing() == Spacing::Joint
        }
        [.., TokenTree::Punct(dollar)] => dollar.as_char() == '$',
        _ => false,
    }
}

/// Splits off `#![…]`, which must stay first in the body.
pub(crate) fn split_inner_attributes(body: TokenStream) -> (TokenStream, TokenStream) {
    let trees: Vec<TokenTree> = body.into_iter().collect();
    let mut end = 0;
    while let [TokenTree::Punct(hash), TokenTree::Punct(bang), TokenTree::Group(_), ..] = &trees[end..]
        && (hash.as_char(), bang.as_char()) == ('#', '!')
    {
        end += 3;
    }
    let mut trees = trees.into_iter();
    (trees.by_ref().take(end).collect(), trees.collect())
}

/// Returns `body` with `probe!(…)` redirected to the runtime's `point!`. Points are in the group
/// of their function.
pub(crate) fn points(body: TokenStream, settings: &Settings) -> TokenStream {
    let rewritten = rewrite(body.clone(), &mut |name, arguments| {
        let krate = krate_at(settings.krate.as_ref(), name.span());
        let Some(group) = &settings.group else {
            return quote_spanned!(name.span()=> #krate::point! #arguments);
        };
        let group = string(&group.value(), group.span());
        let arguments = arguments.stream();
        quote_spanned!(name.span()=> #krate::__private::v1::expand_point! { #krate, #group; #arguments })
    });
    rewritten.unwrap_or(body)
}

/// Returns the path of `probe_runtime`, resolved like the user's own code, but located at `span`:
/// errors point there, and the runtime uses it as the probe's location.
pub(crate) fn krate_at(path: Option<&TokenStream>, span: Span) -> TokenStream {
    let Some(path) = path else {
        return quote_spanned!(span=> ::probe_runtime);
    };
    let place = |mut tree: TokenTree| {
        tree.set_span(tree.span().located_at(span));
        tree
    };
    path.clone().into_iter().map(place).collect()
}

/// Returns a text, located at `span`.
pub(crate) fn string(value: &str, span: Span) -> Literal {
    let mut literal = Literal::string(value);
    literal.set_span(span);
    literal
}

#[cfg(test)]
mod tests {
    use quote::quote;

    use super::*;

    fn rewritten(tokens: TokenStream) -> Option<String> {
        rewrite(tokens, &mut |_, group| quote!(POINT #group)).map(|tokens| tokens.to_string())
    }

    fn becomes(from: TokenStream, to: &TokenStream) {
        assert_eq!(rewritten(from), Some(to.to_string()));
    }

    #[test]
    fn statement_and_expression() {
        becomes(quote!(a(); probe!("x", y); b()), &quote!(a(); POINT("x", y); b()));
        becomes(quote!(let u = probe!("x");), &quote!(let u = POINT("x");));
        becomes(quote!(S { f: probe!("x") }), &quote!(S { f: POINT("x") }));
    }

    #[test]
    fn every_delimiter() {
        becomes(quote!(probe! { "x" } probe!["y"];), &quote!(POINT { "x" } POINT["y"];));
    }

    #[test]
    fn nested_groups() {
        becomes(
            quote!(if a {
                for b in c {
                    d(|| [probe!("x")]);
                }
            } else {
                probe!("y")
            }),
            &quote!(if a {
                for b in c {
                    d(|| [POINT("x")]);
                }
            } else {
                POINT("y")
            }),
        );
    }

    #[test]
    fn a_probe_in_a_probe() {
        becomes(quote!(probe!("x", y = f(|| probe!("z")))), &quote!(POINT("x", y = f(|| POINT("z")))));
    }

    #[test]
    fn other_uses_of_the_word() {
        assert_eq!(rewritten(quote!(x != probe)), None);
        assert_eq!(rewritten(quote!(probe != (x))), None);
        assert_eq!(rewritten(quote!(probe(x); probe.x(); let probe = 1;)), None);
        assert_eq!(rewritten(quote!(prober!("x"); r#probe!("x");)), None);
        assert_eq!(
            rewritten(quote!(
                macro_rules! probe {
                    () => {};
                }
            )),
            None
        );
    }

    #[test]
    fn qualified_calls_stay() {
        assert_eq!(rewritten(quote!(foo::probe!("x"); ::probe!("x"); { a::b::probe!("x") })), None);
        assert_eq!(
            rewritten(quote!(
                macro_rules! m {
                    ($probe:ident) => {
                        $probe!("x")
                    };
                }
            )),
            None
        );
    }
}
