//! Letting other attribute macros go first: they are to see an `async fn`, not what `#[probe]`
//! makes of it.

use std::iter;

use proc_macro2::{Group, Ident, Punct, Spacing, Span, TokenStream, TokenTree};
use quote::quote;

use crate::model::{Block, Function, Settings};

/// Attributes that are no macros: what is under the others is not what it seems.
const INERT: [&str; 33] = [
    "allow",
    "automatically_derived",
    "cfg",
    "cfg_attr",
    "clippy",
    "cold",
    "coverage",
    "debugger_visualizer",
    "deny",
    "deprecated",
    "diagnostic",
    "doc",
    "expect",
    "export_name",
    "forbid",
    "ignore",
    "inline",
    "link_section",
    "miri",
    "must_use",
    "naked",
    "no_mangle",
    "no_sanitize",
    "optimize",
    "rust_analyzer",
    "rustc",
    "rustfmt",
    "should_panic",
    "target_feature",
    "track_caller",
    "unsafe",
    "warn",
    "test",
];

/// Whether an attribute is a macro of somebody's, as far as can be told.
fn is_macro(attribute: &Group) -> bool {
    match attribute.stream().into_iter().next() {
        Some(TokenTree::Ident(word)) => !INERT.iter().any(|known| word == known),
        _ => true,
    }
}

/// Whether macros that stand after the attribute have to go first.
pub(crate) fn is_early(settings: &Settings, function: &Function) -> bool {
    !settings.is_deferred && function.attributes.iter().any(is_macro)
}

/// The first attribute on a block that is somebody's macro, and has to go before the block's
/// functions have probes.
pub(crate) fn early<'a>(settings: &Settings, block: &'a Block) -> Option<&'a Group> {
    block.attributes.iter().find(|attribute| !settings.is_deferred && is_macro(attribute))
}

/// The word by which the attribute says that it has let others go first.
pub(crate) const DEFERRED: &str = "__deferred";

/// `function` with the attribute behind all others, so that macros among these see an `async fn`.
pub(crate) fn deferred(krate: &TokenStream, args: TokenStream, function: &Function) -> TokenStream {
    let body = match &function.body {
        Ok(body) => TokenTree::Group(body.clone()),
        Err(end) => end.clone(),
    };
    last(krate, args, function.head.clone(), function.attributes.len(), &body)
}

/// The same of a block, so that its functions are what macros have made of them: `#[async_trait]`,
/// say.
pub(crate) fn deferred_block(krate: &TokenStream, args: TokenStream, block: &Block) -> TokenStream {
    last(krate, args, block.head.clone(), block.attributes.len(), &block.body.clone().into())
}

/// An item with so many attributes, and after them this one.
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
