//! Letting other attribute macros expand first, so that they see an `async fn` and not the
//! expansion of `#[probe]`.

use std::iter;

use proc_macro2::{Group, Ident, Punct, Spacing, Span, TokenStream, TokenTree};
use quote::quote;

use crate::model::{Block, Function, Settings};

/// Attributes that are not macros. Any other attribute may change the item under it.
const INERT: [&str; 33] = [
    "allow", "automatically_derived", "cfg", "cfg_attr", "clippy", "cold", "coverage", "debugger_visualizer",
    "deny", "deprecated", "diagnostic", "doc", "expect", "export_name", "forbid", "ignore", "inline",
    "link_section", "miri", "must_use", "naked", "no_mangle", "no_sanitize", "optimize", "rust_analyzer",
    "rustc", "rustfmt", "should_panic", "target_feature", "track_caller", "unsafe", "warn", "test",
];

/// Returns whether an attribute is a macro, as far as its name tells.
fn is_macro(attribute: &Group) -> bool {
    match attribute.stream().into_iter().next() {
        Some(TokenTree::Ident(word)) => !INERT.iter().any(|known| word == known),
        _ => true,
    }
}

/// Returns whether macros after the attribute must expand first.
pub(crate) fn is_early(settings: &Settings, function: &Function) -> bool {
    !settings.is_deferred && function.attributes.iter().any(is_macro)
}

/// Returns the first attribute on a block that is a macro, and must expand before the block's
/// functions get probes.
pub(crate) fn early<'a>(settings: &Settings, block: &'a Block) -> Option<&'a Group> {
    block.attributes.iter().find(|attribute| !settings.is_deferred && is_macro(attribute))
}

/// The word that marks an attribute that has let others expand first.
pub(crate) const DEFERRED: &str = "__deferred";

/// Returns `function` with the attribute behind all others, so that macros among them see an `async
/// fn`.
pub(crate) fn deferred(krate: &TokenStream, args: TokenStream, function: &Function) -> TokenStream {
    let body = match &function.body {
        Ok(body) => TokenTree::Group(body.clone()),
        Err(end) => end.clone(),
    };
    last(krate, args, function.head.clone(), function.attributes.len(), &body)
}

/// The same for a block, so that its functions are those that macros such as `#[async_trait]`
/// produce.
pub(crate) fn deferred_block(krate: &TokenStream, args: TokenStream, block: &Block) -> TokenStream {
    last(krate, args, block.head.clone(), block.attributes.len(), &block.body.clone().into())
}

/// Returns an item with `attributes` attributes, followed by this one.
fn last(
    krate: &TokenStream,
    args: TokenStream,
    head: TokenStream,
    attributes: usize,
    body: &TokenTree,
) -> TokenStream {
    let mut head: Vec<TokenTree> = head.into_iter().collect();
    let rest = head.split_off(2 * attributes);
    let marker = Ident::new(DEFERRED, Span::call_site());
    let comma = (!args.is_empty()).then(|| Punct::new(',', Spacing::Alone).into());
    let args: TokenStream = iter::once(marker.into()).chain(comma).chain(args).collect();
    quote!(#(#head)* #[#krate::probe(#args)] #(#rest)* #body)
}
