//! The fate of each function in a block, and arguments in their places.

use proc_macro2::TokenStream;
use quote::quote;

use crate::check::tests::{messages, one_line_with};
use crate::check::{Part, Plan, block, fits, settings};
use crate::model::{Errors, Item};
use crate::{args, parse};

/// Returns the fate of each function in a block, as `name` or `name reason`, and the errors.
fn of_block(args: TokenStream, tokens: TokenStream) -> (Vec<String>, String) {
    fn shown(plan: &Plan, list: &mut Vec<String>) {
        for part in &plan.parts {
            match part {
                Part::Function(_, fate) => {
                    let settings = &fate.settings;
                    let name = settings.name.as_ref().unwrap().value();
                    let group = settings
                        .group
                        .as_ref()
                        .map_or_else(String::new, |group| format!(" @{}", group.value()));
                    list.push(match fate.verdict {
                        Ok(_) => format!("{name}{group}"),
                        Err(reason) => format!("{name}{group} {reason}"),
                    });
                }
                Part::Block(plan) => shown(plan, list),
                Part::Other(_) => {}
            }
        }
    }
    let mut errors = Errors::default();
    let settings = settings(&args::parse(args), &mut errors);
    let item = parse::item(tokens);
    fits(&settings, &item, &mut errors);
    let Item::Block(subject) = item else { panic!("not a block") };
    let plan = block(subject, &settings, &mut errors);
    let mut list = Vec::new();
    shown(&plan, &mut list);
    (list, messages(errors))
}

fn subject() -> TokenStream {
    quote! {
        mod m {
            fn handle(x: u8) { let y = x; f(y) }
            fn get_a(&self) -> u8 { self.a }
            #[inline] fn hinted() { f(); g() }
            #[inline(always)] fn always() { f(); g() }
            #[inline(never)] fn never() { f(); g() }
            #[cfg_attr(x, inline)] fn perhaps() { f(); g() }
            const fn constant() { f(); g() }
            #[unsafe(naked)] extern "C" fn bare() { naked_asm!("ret") }
            async fn later(&self) -> u8 { self.a }
            #[probe(skip)] fn skipped() { f(); g() }
            #[probe(name = "other", group = "own")] #[inline] fn renamed() { 1 }
            impl<T> a::Stack<T> {
                fn push(&mut self) { f(); g() }
                fn len(&self) -> usize { self.len }
                #[probe] fn is_empty(&self) -> bool { self.len == 0 }
            }
            #[probe(skip)]
            trait Shape {
                fn area(&self) -> u32;
                fn twice(&self) -> u32 { f(); 2 * self.area() }
                #[probe] fn thrice(&self) -> u32 { f(); 2 * self.area() }
            }
            #[probe(group = "deep", all)]
            mod inner { fn r#fn() { 1 } }
        }
    }
}

#[test]
fn fates() {
    let (list, errors) = of_block(quote!(), subject());
    assert_eq!(errors, "");
    let expected = [
        "handle", "get_a small", "hinted inline", "always inline", "never", "perhaps inline",
        "constant const", "bare naked", "later", "skipped asked", "other @own", "Stack::push",
        "Stack::len small", "Stack::is_empty", "Shape::area asked", "Shape::twice asked", "Shape::thrice",
        "fn @deep",
    ];
    assert_eq!(list, expected);
}

#[test]
fn filters_and_all() {
    let (list, errors) = of_block(quote!(all, except("Stack::p*", "handle"), group = "net"), subject());
    assert_eq!(errors, "");
    let skipped: Vec<_> = list.iter().filter(|line| line.split(' ').count() > 2).collect();
    assert_eq!(
        skipped,
        [
            "handle @net filtered", "constant @net const", "bare @net naked", "skipped @net asked",
            "Stack::push @net filtered", "Shape::area @net asked", "Shape::twice @net asked",
        ]
    );
    let (list, errors) = of_block(quote!(only("get_*", "Stack::len", "hinted")), subject());
    assert_eq!(errors, "");
    let probed: Vec<_> = list.iter().filter(|line| !line.contains(' ')).collect();
    assert_eq!(probed, ["get_a", "hinted", "Stack::len", "Stack::is_empty", "Shape::thrice"]);
    assert_eq!(list.last().unwrap(), "fn @deep filtered");
    one_line_with(
        &of_block(quote!(except("gte_*")), subject()).1,
        "`except(\"gte_*\")` names no function of this block; there are `handle`, `get_a`, `hinted` and 15 more",
    );
    one_line_with(&of_block(quote!(only("x")), quote!(impl S {})).1, "of this block, which has none");
}

#[test]
fn arguments_in_their_places() {
    one_line_with(&of_block(quote!(name = "x"), quote!(impl S {})).1, "`name` names one probe");
    let inside = |own: TokenStream| of_block(quote!(), quote!(mod m { #own fn f() {} })).1;
    one_line_with(&inside(quote!(#[probe(all)])), "this is one function");
    one_line_with(&inside(quote!(#[probe(only("x"))])), "this is one function");
    one_line_with(&inside(quote!(#[probe(nome = "x")])), "unknown argument `nome`");
    one_line_with(&inside(quote!(#[probe] #[a::probe(skip)])), "a second `#[probe]`");
    one_line_with(&inside(quote!(#[cfg_attr(test, inline, probe(skip))])), "under `cfg_attr`");
    one_line_with(&inside(quote!(#[probe] const)), "doesn't support `const fn`");
    one_line_with(&inside(quote!(#[probe] gen)), "generators aren't supported");
}
