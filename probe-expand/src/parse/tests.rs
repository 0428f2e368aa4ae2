//! The results of parsing well-formed and broken input.

use proc_macro2::Span;
use quote::quote;

use super::*;
use crate::model::{Element, Own};
use crate::signature::signature;

fn function(tokens: TokenStream) -> Function {
    match item(tokens) {
        Item::Function(function) => function,
        Item::Block(_) | Item::Other { .. } => panic!("not taken for a function"),
    }
}

fn keyword(tokens: TokenStream) -> Option<String> {
    match item(tokens) {
        Item::Function(_) | Item::Block(_) => panic!("taken for a function or block"),
        Item::Other { keyword, .. } => keyword.map(|word| word.to_string()),
    }
}

/// Returns a group without delimiters, as rustc makes for `$x:item` and the like.
fn fragment(stream: TokenStream) -> TokenStream {
    TokenTree::Group(Group::new(Delimiter::None, stream)).into()
}

#[test]
fn a_function_is_head_and_body() {
    let f = function(quote! {
        /// Doc.
        #[inline]
        pub(crate) unsafe extern "C" fn f<const N: usize>(a: [u8; { N + 1 }]) -> u8 where u8: Copy { a[0] }
    });
    assert_eq!(f.name, "f");
    assert_eq!(f.attributes.len(), 2);
    assert_eq!(f.qualifiers, ["unsafe", "extern"].map(|word| Ident::new(word, Span::call_site())));
    assert!(f.head.to_string().ends_with("where u8 : Copy"));
    assert_eq!(f.body.expect("a body").stream().to_string(), "a [0]");
}

#[test]
fn a_body_that_does_not_parse_is_kept() {
    assert!(function(quote!(fn f() { let = ; })).is_body());
}

#[test]
fn no_body() {
    assert!(
        !function(quote!(
            fn f();
        ))
        .is_body()
    );
    assert!(!function(quote!(safe fn f() -> [u8; { 3 }];)).is_body());
}

#[test]
fn fragments_of_a_macro() {
    let (vis, ty, block) = (fragment(quote!(pub)), fragment(quote!(u8)), fragment(quote!({ 1 })));
    let none = fragment(quote!());
    assert!(function(quote!(#vis fn f() -> #ty #block)).is_body());
    assert!(function(fragment(quote!(#none fn f() {}))).is_body());
}

#[test]
fn not_functions() {
    for (tokens, expected) in [
        (
            quote!(
                pub struct S;
            ),
            "struct",
        ),
        (
            quote!(
                unsafe trait Alias = Send;
            ),
            "trait",
        ),
        (
            quote!(
                const X: u8 = 1;
            ),
            "const",
        ),
        (
            quote!(
                extern "C" {}
            ),
            "extern",
        ),
        (
            quote!(
                #[x]
                pub(crate) mod m;
            ),
            "mod",
        ),
    ] {
        assert_eq!(keyword(tokens).as_deref(), Some(expected));
    }
    assert_eq!(keyword(quote!(|x| x + 1)), None);
    assert_eq!(keyword(quote!()), None);
}

/// Returns each element of a block as `fn`, `impl Type`, `trait Name`, `mod` or `other`, with the
/// arguments of its own `#[probe]`.
fn elements(tokens: TokenStream) -> Vec<String> {
    fn shown(elements: &[Element]) -> Vec<String> {
        let own = |own: &[Own]| own.first().map_or_else(String::new, |own| format!(" probe({})", own.args));
        elements
            .iter()
            .map(|element| match element {
                Element::Function(owns, function) => {
                    let end = if function.is_body() { "{}" } else { ";" };
                    format!("fn {}{end}{}", function.name, own(owns))
                }
                Element::Block(owns, block) => {
                    let prefix = block.prefix.as_deref().unwrap_or("mod");
                    format!("{prefix} [{}]{}", shown(&block.elements).join(", "), own(owns))
                }
                Element::Other(tokens) => format!("other {}", !tokens.is_empty()),
            })
            .collect()
    }
    match item(tokens) {
        Item::Block(block) => shown(&block.elements),
        Item::Function(_) | Item::Other { .. } => panic!("not taken for a block"),
    }
}

#[test]
fn the_inside_of_a_module() {
    let (vis, block) = (fragment(quote!(pub(crate))), fragment(quote!({ 1 })));
    let no_vis = fragment(quote!());
    let item = fragment(quote!(#[a] #no_vis fn from_item() {}));
    let module = quote! {
        #[cfg(x)]
        pub(in a::b) mod m {
            #![allow(x)]
            //! Doc.
            use a::{b, c};
            const A: [u8; { 3 }] = { [1; 3] };
            const _: () = { fn hidden() {} };
            static B: fn() -> u8 = { f };
            type C<T> = Vec<T>;
            struct D<const N: usize = { 3 }>(u8);
            struct E { a: u8 }
            union F { a: u8 }
            enum G<T> where T: Fn() -> u8 { H }
            extern crate x;
            extern "C" { fn foreign(); }
            unsafe extern "C" {}
            macro_rules! m { () => {}; }
            m!(a);
            a::m! { b }
            #no_vis fn plain() {}
            #vis fn braced<const N: usize = { 3 }>(a: [u8; { 4 }]) -> G<{ 5 }> where G<{ N }>: Fn(u8) -> u8 #block
            pub const unsafe extern "C" fn qualified() {}
            /// Doc.
            #[a] #[probe] async fn own() {}
            #item
            #[b] #[a::b::probe(name = "x")] #item
            #[probe(skip)] pub(crate) mod inner { fn a() {} #[probe()] fn b(); }
            mod elsewhere;
            unsafe impl<T: A<{ 3 }>> a::B for C<T> where T: D<{ 4 }> { const X: u8 = { 1 }; type Y = u8; fn c(&self) {} fn d(); }
            pub unsafe trait T<X = u8>: A<{ 3 }> { fn e(&self) -> u8 { 1 } fn f(&self); m!(); }
        }
    };
    let mut expected = vec!["other true"; 17];
    expected.extend([
        "fn plain{}",
        "fn braced{}",
        "fn qualified{}",
        "fn own{} probe()",
        "fn from_item{}",
        "fn from_item{} probe(name = \"x\")",
        "mod [fn a{}, fn b; probe()] probe(skip)",
        "other true",
        "C [other true, other true, fn c{}, fn d;]",
        "T [fn e{}, fn f;, other true]",
    ]);
    assert_eq!(elements(module), expected);
}

#[test]
fn forms_of_the_probe_attribute() {
    let attribute =
        |tokens: TokenStream| own(&Group::new(Delimiter::Bracket, tokens)).map(|own| own.args.to_string());
    for tokens in
        [quote!(probe), quote!(a::probe), quote!(::a::b::probe), quote!($crate::probe), quote!(probe())]
    {
        let is_path = !tokens.to_string().contains('$');
        assert_eq!(attribute(tokens), is_path.then(String::new));
    }
    assert_eq!(attribute(quote!(a::probe(skip))).as_deref(), Some("skip"));
    for tokens in [
        quote!(probe = 1),
        quote!(probe::x),
        quote!(prober),
        quote!(doc = "probe"),
        quote!(cfg_attr(a, probe)),
    ] {
        assert_eq!(attribute(tokens), None);
    }
}

/// Returns `name style expr` for each field, or the errors.
fn fields(tokens: &TokenStream) -> Result<Vec<String>, String> {
    let mut errors = Errors::default();
    let point = point(quote!(::k; "n", #tokens), &mut errors);
    assert_eq!(point.krate.to_string(), ":: k");
    errors.into_result().map_err(|error| error.to_string())?;
    let show = |field: &Field| {
        let expr = field.expr.to_token_stream();
        format!("{} {:?} {expr}", field.name, field.style)
    };
    Ok(point.fields.iter().map(show).collect())
}

#[test]
fn field_forms() {
    let long = fields(&quote!(a = a, b = ?b, c = %c)).unwrap();
    assert_eq!(long, ["a Value a", "b Debug b", "c Display c"]);
    assert_eq!(fields(&quote!(a, ?b, %c)).unwrap(), long);
    assert_eq!(fields(&quote!(a, ?b, %c,)).unwrap(), long);
    assert_eq!(fields(&quote!()).unwrap(), [""; 0]);
    assert_eq!(fields(&quote!(r#type)).unwrap(), ["r#type Value r#type"]);
}

#[test]
fn commas_inside_an_expression() {
    assert_eq!(fields(&quote!(a = f::<A, B>(x, |y, z| y), b)).unwrap().len(), 2);
}

#[test]
fn broken_fields() {
    for (tokens, part) in [
        (quote!(self.x), "expected a field"),
        (quote!(x.y), "expected a field"),
        (quote!(x == y), "expected a field"),
        (quote!("x"), "expected a field"),
        (quote!(?self), "expected a field"),
        (quote!(,), "expected a field"),
        (quote!(?x = y), "write `x = ?…`"),
        (quote!(x =), "`x` has no value"),
        (quote!(x = , y), "`x` has no value"),
        (quote!(x = 1 y = 2), "expected `,`"),
    ] {
        let error = fields(&tokens).expect_err(&tokens.to_string());
        assert!(error.contains(part), "{tokens}: {error}");
    }
}

#[test]
fn the_group_of_a_point() {
    let group = |tokens| {
        let point = point(tokens, &mut Errors::default());
        (point.krate.to_string(), point.group.map(|group| group.value()))
    };
    assert_eq!(group(quote!(::k; "a", b)), (":: k".to_owned(), None));
    assert_eq!(group(quote!(k, "net"; "a", b)), ("k".to_owned(), Some("net".to_owned())));
}

#[test]
fn names() {
    let name = |tokens| point(quote!($crate; #tokens), &mut Errors::default()).name;
    assert!(matches!(name(quote!()), PointName::Missing));
    assert!(matches!(name(quote!("a")), PointName::Literal(_)));
    assert!(matches!(name(quote!(r"a", x)), PointName::Literal(_)));
    let literal = fragment(quote!("a"));
    assert!(matches!(name(quote!(#literal, x)), PointName::Literal(_)));
    assert!(matches!(name(quote!(concat!("a", "b"), x)), PointName::Other(_)));
    assert!(matches!(name(quote!("a" + "b")), PointName::Other(_)));
}

#[test]
fn lists_of_args() {
    let shown = |tokens: TokenStream| {
        let (all, fields) = args_list(tokens).map_err(|error| error.to_string())?;
        let fields: Vec<_> = fields.iter().map(|field| field.name.to_string()).collect();
        Ok::<_, String>(format!("{all} {}", fields.join(" ")))
    };
    for (tokens, expected) in [
        (quote!(*), "true "),
        (quote!(*,), "true "),
        (quote!(*, a, ?b, c = d + 1,), "true a b c"),
        (quote!(a), "false a"),
        (quote!(self, ?r#type), "false self r#type"),
        (quote!(x = *y), "false x"),
    ] {
        assert_eq!(shown(tokens).as_deref(), Ok(expected));
    }
    for tokens in [quote!(*a), quote!(a *), quote!(a, *), quote!(Self), quote!(a.b)] {
        assert!(shown(tokens.clone()).is_err(), "{tokens}");
    }
    assert!(ret_list(quote!(*)).is_err());
    assert_eq!(ret_list(quote!(?ret, len = ret.len())).unwrap().len(), 2);
}

#[test]
fn signatures() {
    let count = |tokens| signature(tokens).map(|signature| signature.inputs.len()).map_err(|_| ());
    for head in [
        quote!(fn f(a: u8, b: u8)),
        quote!(#[x] #[y(z)] pub(in a::b) const unsafe extern "C" fn f<T>(self: &T, _: u8) -> u8 where T: A),
        quote!(default async fn f((a, b): (A, B), c: impl D)),
    ] {
        assert_eq!(count(head), Ok(2));
    }
    assert_eq!(count(fragment(quote!(fn f(a: u8)))), Ok(1));
    assert_eq!(count(quote!(fn f(a))), Err(()));
}

impl Function {
    fn is_body(&self) -> bool {
        self.body.is_ok()
    }
}
