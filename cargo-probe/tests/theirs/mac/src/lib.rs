//! Macros.

use proc_macro::{TokenStream, TokenTree};

/// Doubles an expression.
#[proc_macro]
pub fn double(tokens: TokenStream) -> TokenStream {
    format!("({tokens} * 2)").parse().unwrap()
}

/// Refuses functions of more than one statement, or with an attribute.
#[proc_macro_attribute]
pub fn short(_: TokenStream, item: TokenStream) -> TokenStream {
    let Some(TokenTree::Group(body)) = item.clone().into_iter().last() else { panic!("no body") };
    if item.to_string().contains("#") {
        return "compile_error!(\"an attribute\");".parse().unwrap();
    }
    if body.stream().into_iter().any(|tree| tree.to_string() == ";") {
        return "compile_error!(\"more than one statement\");".parse().unwrap();
    }
    item
}

/// Refuses blocks with a semicolon, or an attribute.
#[proc_macro_attribute]
pub fn flat(_: TokenStream, item: TokenStream) -> TokenStream {
    assert!(!item.to_string().contains([';', '#']), "no semicolons or attributes here");
    item
}
