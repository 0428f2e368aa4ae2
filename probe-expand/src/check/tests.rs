//! Each rule: code that it refuses, and code that it accepts.

use proc_macro2::TokenStream;
use quote::quote;

use super::{item as check_item, point as check_point, settings as check_settings, *};
use crate::check::block::is_small;
use crate::model::Settings;
use crate::{args, parse};

/// Returns the messages, one a line.
pub(super) fn messages(errors: Errors) -> String {
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
pub(super) fn one_line_with(messages: &str, part: &str) {
    assert_eq!(messages.lines().count(), 1, "{messages}");
    assert!(messages.contains(part), "{messages}");
}

#[test]
fn good_arguments() {
    let (settings, errors) = of_args(quote!(crate = crate::x, name = "a::b-c.d_1"));
    assert_eq!(errors, "");
    assert!(settings.replace.is_none());
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
fn replace_and_its_word() {
    for (tokens, is_method) in [(quote!(replace), false), (quote!(replace(method), name = "a"), true)] {
        let (settings, errors) = of_args(tokens);
        assert_eq!((errors.as_str(), settings.replace.unwrap().is_method), ("", is_method));
    }
    for tokens in
        [quote!(replace = 1), quote!(replace()), quote!(replace(method, method)), quote!(replace(fn))]
    {
        one_line_with(&of_args(tokens).1, "write `replace`, or `replace(method)`");
    }
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

#[test]
fn small_bodies() {
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
        assert!(is_small(&body), "{body}");
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
        assert!(!is_small(&body), "{body}");
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
