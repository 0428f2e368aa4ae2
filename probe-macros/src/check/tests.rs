//! Each rule: what it refuses, and what it lets through.

use proc_macro2::TokenStream;
use quote::quote;

use super::{item as check_item, point as check_point, settings as check_settings, *};
use crate::model::{Part, Plan, Settings};
use crate::{args, parse};

/// The messages, one a line.
fn messages(errors: Errors) -> String {
    match errors.into_result() {
        Ok(()) => String::new(),
        Err(error) => error.into_iter().map(|error| error.to_string() + "\n").collect(),
    }
}

fn of_args(tokens: TokenStream) -> (Settings, String) {
    let mut errors = Errors::default();
    let settings = check_settings(&args::parse(tokens), &mut errors);
    (settings, messages(errors))
}

fn of_item(tokens: TokenStream) -> String {
    let mut errors = Errors::default();
    check_item(&parse::item(tokens), &mut errors);
    messages(errors)
}

fn of_point(tokens: &TokenStream) -> String {
    let mut errors = Errors::default();
    let point = parse::point(quote!(::k; #tokens), &mut errors);
    check_point(&point, &mut errors);
    messages(errors)
}

#[track_caller]
fn one_line_with(messages: &str, part: &str) {
    assert_eq!(messages.lines().count(), 1, "{messages}");
    assert!(messages.contains(part), "{messages}");
}

#[test]
fn good_arguments() {
    let (settings, errors) = of_args(quote!(crate = crate::x, name = "a::b-c.d_1"));
    assert_eq!(errors, "");
    assert_eq!(settings.krate.unwrap().to_string(), "crate :: x");
    assert_eq!(settings.name.unwrap().value(), "a::b-c.d_1");
    let (settings, errors) =
        of_args(quote!(group = "net::tcp", doc = "All of \"it\".", all, only("a*", "B::*",), except("c")));
    assert_eq!(errors, "");
    assert_eq!(settings.group.unwrap().value(), "net::tcp");
    assert_eq!(settings.doc.unwrap().value(), "All of \"it\".");
    assert_eq!(settings.only.unwrap().globs.len(), 2);
    assert!(settings.all.is_some());
    let (settings, errors) = of_args(quote!());
    assert_eq!(errors, "");
    assert!(settings.krate.is_none());
    assert!(settings.name.is_none());
}

#[test]
fn bad_arguments() {
    for (tokens, part) in [
        (
            quote!(nome = "a"),
            "unknown argument `nome`; `#[probe]` takes `name = \"…\"`, `group = \"…\"`, `doc = \"…\"`, `skip`",
        ),
        (quote!(skip(a)), "`skip` takes no value"),
        (quote!(all = true), "`all` takes no value"),
        (quote!(skip, group = "a"), "`skip` stands alone"),
        (quote!(group), "`group` needs a value"),
        (quote!(group = 3), "the `group` of a probe must be a string literal"),
        (quote!(group = "a b"), "the group of a probe can't contain ' '"),
        (quote!(group = "a|b"), "the group of a probe can't contain '|'"),
        (quote!(group = ""), "the group of a probe can't be empty"),
        (quote!(doc = x), "the `doc` of a probe must be a string literal"),
        (quote!(doc = " "), "can't be empty"),
        (quote!(doc = "a\nb"), "is one line"),
        (quote!(only), "`only` takes a list of globs"),
        (quote!(only()), "`only` takes a list of globs"),
        (quote!(except = "a"), "`except` takes a list of globs"),
        (quote!(except(a)), "`except` takes a list of globs"),
        (quote!(except("a b")), "a filter can't contain ' '"),
        (quote!(except("a:b")), "a filter can't contain ':'"),
        (quote!(only("a::")), "a filter needs a name"),
        (quote!(only("")), "a filter needs a name"),
        (quote!(name = "a", name = "b"), "duplicate argument `name`"),
        (quote!(name), "`name` needs a value"),
        (quote!(name("a")), "`name` needs a value"),
        (quote!(name =), "must be a string literal"),
        (quote!(name = 3), "must be a string literal"),
        (quote!(name = b"a"), "must be a string literal"),
        (quote!(name = concat!("a", "b")), "must be a string literal"),
        (quote!("a"), "write `name = \"a\"`"),
        (quote!(,), "form `key = value`"),
        (quote!(crate = "a"), "takes the path"),
        (quote!(crate = a b), "takes the path"),
        (quote!(crate =), "takes the path"),
        (quote!(args), "`args` takes a list"),
        (quote!(args = a), "`args` takes a list"),
        (quote!(args()), "`args` records nothing"),
        (quote!(args(a), args(*)), "duplicate argument `args`"),
        (quote!(args(a.b)), "expected a field"),
        (quote!(args(a b)), "expected"),
        (quote!(args(*a)), "expected `,`"),
        (quote!(args(a, *)), "expected a field"),
        (quote!(args(a, a)), "duplicate field `a`"),
        (quote!(args(a = b?)), "`?` in a field"),
        (quote!(args(a = &mut b)), "`&mut` in a field"),
        (quote!(ret = a), "`ret` takes no value"),
        (quote!(ret()), "`ret()` records nothing"),
        (quote!(ret(*)), "expected a field"),
        (quote!(ret, ret(a)), "duplicate argument `ret`"),
        (quote!(ret(a = return)), "`return` in a field"),
    ] {
        one_line_with(&of_args(tokens).1, part);
    }
}

#[test]
fn all_errors_at_once() {
    assert_eq!(of_args(quote!(a = 1, name = 2, crate = 3, "x")).1.lines().count(), 4);
    assert_eq!(
        of_item(quote!(
            #[naked]
            const gen fn f();
        ))
        .lines()
        .count(),
        4
    );
    assert_eq!(of_point(&quote!("", a = return, a = b?)).lines().count(), 4);
}

#[test]
fn names() {
    for (name, part) in [
        ("", "can't be empty"),
        ("a b", "can't contain ' '"),
        ("a*", "can't contain '*'"),
        ("a:b", "can't contain ':'"),
        ("a:::b", "can't contain ':'"),
        ("a::", "empty segment"),
        ("::a", "empty segment"),
        ("a::::b", "empty segment"),
        ("a\n", "can't contain '\\n'"),
    ] {
        one_line_with(&of_args(quote!(name = #name)).1, part);
        one_line_with(&of_point(&quote!(#name)), part);
    }
    one_line_with(&of_point(&quote!("a"suffix)), "takes no suffix");
    assert_eq!(of_point(&quote!("größe::a-b.c_d")), "");
    one_line_with(&of_point(&quote!()), "needs a name");
    one_line_with(&of_point(&quote!(NAME)), "must be a string literal");
    one_line_with(&of_point(&quote!(concat!("a", "b"), x)), "must be a string literal");
}

#[test]
fn functions() {
    assert_eq!(
        of_item(quote!(
            #[inline]
            pub unsafe extern "C" fn f() {}
        )),
        ""
    );
    for (tokens, part) in [
        (
            quote!(
                const fn f() {}
            ),
            "`const fn`",
        ),
        (
            quote!(
                gen fn f() {}
            ),
            "generators aren't supported",
        ),
        (
            quote!(
                fn f();
            ),
            "`f` has no body",
        ),
        (
            quote!(
                #[naked]
                fn f() {}
            ),
            "naked functions",
        ),
        (
            quote!(
                #[unsafe(naked)]
                extern "C" fn f() {}
            ),
            "naked functions",
        ),
        (
            quote!(
                struct S;
            ),
            "not a `struct`",
        ),
        (
            quote!(
                mod m;
            ),
            "not a `mod`; the file of a module isn't seen from here",
        ),
        (quote!(|x| x), "not an expression"),
    ] {
        one_line_with(&of_item(tokens), part);
    }
}

/// What becomes of each function in a block: `name`, or `name reason`.
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
    let settings = check_settings(&args::parse(args), &mut errors);
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
        "handle",
        "get_a small",
        "hinted inline",
        "always inline",
        "never",
        "perhaps inline",
        "constant const",
        "bare naked",
        "later",
        "skipped asked",
        "other @own",
        "Stack::push",
        "Stack::len small",
        "Stack::is_empty",
        "Shape::area asked",
        "Shape::twice asked",
        "Shape::thrice",
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
            "handle @net filtered",
            "constant @net const",
            "bare @net naked",
            "skipped @net asked",
            "Stack::push @net filtered",
            "Shape::area @net asked",
            "Shape::twice @net asked",
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

#[test]
fn what_is_small() {
    for body in [
        quote!(),
        quote!(self.len),
        quote!(self.x = x;),
        quote!(&mut self.items[index]),
        quote!(Self { a, b: Vec::new() }),
        quote!(matches!(self, Self::A | Self::B)),
        quote!(self.entries.get(index).map(|entry| &entry.value)),
        quote!(unsafe { *self.pointer.add(1) }),
    ] {
        assert!(small::is_small(&body), "{body}");
    }
    for body in [
        quote!(a(); b()),
        quote!(a(); b();),
        quote!(if a { 1 } else { 2 }),
        quote!(match a {}),
        quote!(a.map(|b| {
            c();
            d
        })),
        quote!(a.await),
        quote!(loop {}),
        quote!(a(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)),
    ] {
        assert!(!small::is_small(&body), "{body}");
    }
}

#[test]
fn fields() {
    one_line_with(&of_point(&quote!("n", a, b, ?a)), "duplicate field `a`");
    one_line_with(&of_point(&quote!("n", r#fn, r#fn = 1)), "duplicate field `fn`");
    let many = |count| {
        let names = (0..count).map(|n| quote::format_ident!("f{n}"));
        of_point(&quote!("n", #(#names),*))
    };
    assert_eq!(many(MAX_FIELDS), "");
    one_line_with(&many(MAX_FIELDS + 1), "at most 32 fields, and this one has 33");
}

#[test]
fn control_flow_that_leaves_a_field() {
    for (tokens, what) in [
        (quote!(return), "`return`"),
        (quote!(f(return 1)), "`return`"),
        (quote!(a?), "`?`"),
        (quote!({ a?.b() }), "`?`"),
        (quote!(a.await), "`.await`"),
        (quote!(|| a.await), "`.await`"),
        (quote!(break), "`break`"),
        (quote!(continue), "`continue`"),
        (quote!(if a { break 'outer } else { 1 }), "`break`"),
        (
            quote!(loop {
                break 'outer;
            }),
            "`break`",
        ),
        (quote!(|| { break }), "`break`"),
        (quote!(for a in { break } {}), "`break`"),
        (quote!(format!("{}", a?)), "`?`"),
        (quote!(format!("{a}", a = return)), "`return`"),
    ] {
        one_line_with(&of_point(&quote!("n", x = #tokens)), &format!("{what} in a field: "));
    }
}

#[test]
fn control_flow_that_stays() {
    for tokens in [
        quote!(a.map(|b| { return b })),
        quote!((|| Some(a? + 1))()),
        quote!(loop {
            break 3;
        }),
        quote!('a: loop {
            loop {
                break 'a 3;
            }
        }),
        quote!('a: { break 'a 3 }),
        quote!(for b in a {
            if b {
                continue;
            }
        }),
        quote!(async {
            a.await?;
            return;
        }),
        quote!(try { a? }),
        quote!({
            fn f() {
                return;
            }
            f()
        }),
        quote!(matches!(a, Some(_) if true)),
    ] {
        assert_eq!(of_point(&quote!("n", x = #tokens)), "");
    }
}

#[test]
fn side_effects() {
    for (tokens, what) in [
        (quote!(a = 1), "assignment"),
        (
            quote!({
                a = 1;
                a
            }),
            "assignment",
        ),
        (
            quote!({
                a += 1;
                a
            }),
            "assignment",
        ),
        (quote!(|| a >>= 1), "assignment"),
        (quote!(f(&mut a)), "`&mut`"),
        (quote!(&raw mut a), "`&raw mut`"),
        (quote!(if let Some(ref mut b) = a { 1 } else { 2 }), "`ref mut`"),
        (quote!(format!("{:?}", &mut a)), "`&mut`"),
    ] {
        one_line_with(&of_point(&quote!("n", x = #tokens)), &format!("{what} in a field: "));
    }
    for tokens in [
        quote!(a == b && c <= d),
        quote!(&a),
        quote!(a as *mut u8),
        quote!(&raw const a),
        quote!(format!("{b}", b = a)),
    ] {
        assert_eq!(of_point(&quote!("n", x = #tokens)), "");
    }
}

/// The errors of a function's captures.
fn of_captures(settings: TokenStream, function: TokenStream) -> String {
    let mut errors = Errors::default();
    let settings = super::settings(&args::parse(settings), &mut errors);
    let Item::Function(function) = parse::item(function) else { panic!("not a function") };
    let captures = captures(&settings, &function, &mut errors);
    assert_eq!(captures.exit.is_some(), settings.ret.is_some());
    messages(errors)
}

#[test]
fn captures_that_fit_their_function() {
    for (settings, function) in [
        (
            quote!(args(*), ret),
            quote!(
                pub(crate) unsafe extern "C" fn f<const N: usize>(a: [u8; N]) -> u8
                where
                    u8: Copy,
                {
                }
            ),
        ),
        (quote!(args(self, ?a)), quote!(default fn f(self: Pin<&mut Self>, ref a @ (b, _): A) {})),
        (
            quote!(args(ret)),
            quote!(
                fn f(ret: u32) {}
            ),
        ),
        (
            quote!(args(a = ret.x)),
            quote!(
                fn f() {}
            ),
        ),
        (
            quote!(ret),
            quote!(
                #[inline]
                fn f() -> impl Fn() -> ! {}
            ),
        ),
        // What there is.
        (
            quote!(args(*)),
            quote!(
                fn f(_a: u8, _: u8) {}
            ),
        ),
        // Not looked at: rustc reports it.
        (quote!(), quote!(fn f(a) {})),
    ] {
        assert_eq!(of_captures(settings, function), "");
    }
}

#[test]
fn captures_that_do_not() {
    let many = |count| {
        let names = (0..count).map(|n| quote::format_ident!("f{n}"));
        quote!(fn f(#(#names: u8),*) -> u8 {})
    };
    let fields = |count| (0..count).map(|n| quote::format_ident!("f{n}"));
    assert_eq!(of_captures(quote!(args(*), ret), many(MAX_FIELDS)), "");
    let (most, more) = (fields(MAX_FIELDS - 1), fields(MAX_FIELDS));
    assert_eq!(of_captures(quote!(ret(#(#most = 1),*)), many(1)), "");
    for (settings, function, part) in [
        (
            quote!(args(ret)),
            quote!(
                fn f(a: u8) {}
            ),
            "the result isn't there yet",
        ),
        (quote!(args(*)), many(MAX_FIELDS + 1), "at most 32 fields, and `args(*)` makes 33"),
        (quote!(ret(#(#more = 1),*)), many(1), "at most 31 fields, and this one has 32"),
        (quote!(ret(outcome = 1)), many(1), "a field `outcome` already"),
        (
            quote!(ret),
            quote!(
                fn f() -> ! {}
            ),
            "a function that returns `!` has none",
        ),
        (
            quote!(ret),
            quote!(
                #[track_caller]
                fn f() {}
            ),
            "doesn't work with `#[track_caller]`",
        ),
        (quote!(args(*)), quote!(fn f(a) {}), "can't read this signature"),
    ] {
        one_line_with(&of_captures(settings, function), part);
    }
}
