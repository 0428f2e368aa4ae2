//! The attribute before every function of a file, or before every block of functions.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::AddAssign;

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{
    Attribute, ForeignItemFn, ImplItem, ImplItemFn, Item, ItemFn, Macro, Signature, TraitItem, TraitItemFn,
};

/// The places of the attribute.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Places {
    /// Before each function.
    Functions,
    /// Before each `impl`, `trait` and inline `mod`, with the exclusions that are its default; and
    /// before each function beside them that is not `#[inline]`, which a block would exclude, too.
    Blocks,
}

/// Why a function has no probe.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Left {
    /// `const fn`: a probe is an instruction, which can't run at compile time.
    Const,
    /// A method of a trait that implementations define.
    WithoutBody,
    /// Declared in an `extern` block.
    Foreign,
    /// A naked function, whose body is assembly.
    Naked,
    /// `#[inline]`, where blocks are probed.
    Inline,
    /// Inside of a macro: its body is tokens, not yet a function.
    InMacro,
    /// Syntax that the parser used here does not know.
    NotUnderstood,
}

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Const => "const",
            Self::WithoutBody => "without a body",
            Self::Foreign => "foreign",
            Self::Naked => "naked",
            Self::Inline => "inline",
            Self::InMacro => "in a macro",
            Self::NotUnderstood => "not understood",
        })
    }
}

/// How many functions were found, and what became of them.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Tally {
    /// Functions that have the attribute now.
    pub probed: usize,
    /// Blocks that have it.
    pub blocks: usize,
    /// Of these, `async fn`s.
    pub asynchronous: usize,
    /// Functions that have not, by reason.
    pub left: BTreeMap<Left, usize>,
}

impl Tally {
    fn leave(&mut self, why: Left, functions: usize) {
        if functions != 0 {
            *self.left.entry(why).or_default() += functions;
        }
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.probed += other.probed;
        self.blocks += other.blocks;
        self.asynchronous += other.asynchronous;
        for (why, functions) in other.left {
            self.leave(why, functions);
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.blocks != 0 {
            write!(f, "{} blocks and ", self.blocks)?;
        }
        write!(f, "{} functions probed ({} of them async)", self.probed, self.asynchronous)?;
        for (why, functions) in &self.left {
            write!(f, ", {functions} {why}")?;
        }
        Ok(())
    }
}

/// The text of a file with `attribute` before each function, or each block, that takes it, after
/// its other attributes.
///
/// # Errors
/// The file is not Rust.
pub fn patched(text: &str, attribute: &str, places: Places) -> syn::Result<(String, Tally)> {
    let file = syn::parse_file(text)?;
    let mut finder = Finder { places, starts: Vec::new(), tally: Tally::default() };
    finder.visit_file(&file);
    let Finder { mut starts, tally, .. } = finder;
    starts.sort_unstable();
    let mut new = String::with_capacity(text.len() + starts.len() * (attribute.len() + 1));
    let mut done = 0;
    for at in starts {
        new.push_str(&text[done..at]);
        new.push_str(attribute);
        new.push(' ');
        done = at;
    }
    new.push_str(&text[done..]);
    Ok((new, tally))
}

/// Finds where functions, or blocks, begin.
struct Finder {
    places: Places,
    starts: Vec<usize>,
    tally: Tally,
}

impl Finder {
    /// A function with a body; `tokens` are its own, without outer attributes.
    fn function(&mut self, attributes: &[Attribute], signature: &Signature, tokens: &TokenStream) {
        if signature.constness.is_some() {
            self.tally.leave(Left::Const, 1);
        } else if attributes.iter().any(is_naked) {
            self.tally.leave(Left::Naked, 1);
        } else if self.places == Places::Blocks && attributes.iter().any(|it| it.path().is_ident("inline")) {
            self.tally.leave(Left::Inline, 1);
        } else {
            self.start(tokens);
            self.tally.probed += 1;
            self.tally.asynchronous += usize::from(signature.asyncness.is_some());
        }
    }

    fn start(&mut self, tokens: &TokenStream) {
        let first = tokens.clone().into_iter().next().expect("an item has tokens");
        self.starts.push(first.span().byte_range().start);
    }
}

fn is_naked(attribute: &Attribute) -> bool {
    let path = attribute.path();
    path.is_ident("naked")
        || path.is_ident("unsafe") && attribute.parse_args::<syn::Ident>().is_ok_and(|it| it == "naked")
}

/// How often the tokens say `fn name`, however deep.
fn functions_in(tokens: &TokenStream) -> usize {
    let mut trees = tokens.clone().into_iter().peekable();
    let mut functions = 0;
    while let Some(tree) = trees.next() {
        functions += match &tree {
            TokenTree::Group(group) => functions_in(&group.stream()),
            TokenTree::Ident(word) if word == "fn" => usize::from(match trees.peek() {
                Some(TokenTree::Ident(_)) => true,
                // A macro's own variable.
                Some(TokenTree::Punct(it)) => it.as_char() == '$',
                _ => false,
            }),
            _ => 0,
        };
    }
    functions
}

/// The tokens of `item` without its attributes.
macro_rules! bare {
    ($item:expr) => {{
        let mut item = $item.clone();
        item.attrs.clear();
        quote::ToTokens::into_token_stream(item)
    }};
}

impl<'ast> Visit<'ast> for Finder {
    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        self.function(&item.attrs, &item.sig, &bare!(item));
        if self.places == Places::Functions {
            visit::visit_item_fn(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        self.function(&item.attrs, &item.sig, &bare!(item));
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast TraitItemFn) {
        match &item.default {
            Some(_) => self.function(&item.attrs, &item.sig, &bare!(item)),
            None => self.tally.leave(Left::WithoutBody, 1),
        }
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_foreign_item_fn(&mut self, item: &'ast ForeignItemFn) {
        self.tally.leave(Left::Foreign, 1);
        visit::visit_foreign_item_fn(self, item);
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        self.tally.leave(Left::InMacro, functions_in(&call.tokens));
    }

    fn visit_item(&mut self, item: &'ast Item) {
        if let Item::Verbatim(tokens) = item {
            self.tally.leave(Left::NotUnderstood, functions_in(tokens));
        }
        let block = match (self.places, item) {
            (Places::Blocks, Item::Impl(it)) => bare!(it),
            (Places::Blocks, Item::Trait(it)) => bare!(it),
            (Places::Blocks, Item::Mod(it)) if it.content.is_some() => bare!(it),
            _ => return visit::visit_item(self, item),
        };
        self.start(&block);
        self.tally.blocks += 1;
    }

    fn visit_impl_item(&mut self, item: &'ast ImplItem) {
        if let ImplItem::Verbatim(tokens) = item {
            self.tally.leave(Left::NotUnderstood, functions_in(tokens));
        }
        visit::visit_impl_item(self, item);
    }

    fn visit_trait_item(&mut self, item: &'ast TraitItem) {
        if let TraitItem::Verbatim(tokens) = item {
            self.tally.leave(Left::NotUnderstood, functions_in(tokens));
        }
        visit::visit_trait_item(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_attribute_comes_after_all_others_and_moves_no_line() {
        let text = "//! É.\n/// Dóc.\n#[inline]\npub(crate) unsafe fn f() {\n    #![allow(x)]\n    async fn g() {}\n}\n\
                    impl A { #[cold] default fn m(&self) {} }\ntrait T { fn d() {} }\n";
        let (new, tally) = patched(text, "#[p]", Places::Functions).unwrap();
        assert_eq!(
            new,
            "//! É.\n/// Dóc.\n#[inline]\n#[p] pub(crate) unsafe fn f() {\n    #![allow(x)]\n    #[p] async fn g() {}\n}\n\
             impl A { #[cold] #[p] default fn m(&self) {} }\ntrait T { #[p] fn d() {} }\n"
        );
        assert_eq!(tally.to_string(), "4 functions probed (1 of them async)");
    }

    #[test]
    fn what_takes_no_probe_is_counted_by_reason() {
        let text = "const fn a() { fn inside() {} }\ntrait T { fn b(); const C: fn(u8); }\nextern \"C\" { fn c(); fn d(); }\n\
                    #[unsafe(naked)] extern \"C\" fn e() { naked_asm!(\"ret\") }\n\
                    macro_rules! m { ($n:ident) => { fn $n() { fn in_there(f: fn(u8)) {} } } }\nm! { x }\n";
        let (new, tally) = patched(text, "#[p]", Places::Functions).unwrap();
        assert_eq!(new, text.replace("fn inside", "#[p] fn inside"));
        assert_eq!(
            tally.to_string(),
            "1 functions probed (0 of them async), 1 const, 1 without a body, 2 foreign, 1 naked, 2 in a macro"
        );
    }

    #[test]
    fn a_block_has_it_once_and_what_stands_beside_it_itself() {
        let text = "/// A.\nfn a() { fn b() {} }\n#[inline] fn c() {}\n#[cfg(x)]\nimpl A { #[cold] fn m(&self) {} }\n\
                    pub unsafe trait T { fn d() {} }\nmod e;\nmod f { impl B {} }\n";
        let (new, tally) = patched(text, "#[p]", Places::Blocks).unwrap();
        assert_eq!(
            new,
            "/// A.\n#[p] fn a() { fn b() {} }\n#[inline] fn c() {}\n#[cfg(x)]\n#[p] impl A { #[cold] fn m(&self) {} }\n\
             #[p] pub unsafe trait T { fn d() {} }\nmod e;\n#[p] mod f { impl B {} }\n"
        );
        assert_eq!(tally.to_string(), "3 blocks and 1 functions probed (0 of them async), 1 inline");
    }

    #[test]
    fn text_that_is_not_rust_is_an_error() {
        assert!(patched("fn (", "#[p]", Places::Blocks).is_err());
    }
}
