//! A function that can be replaced ▶ tokens.

use proc_macro2::{Group, Ident, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::{Attribute, Signature, Visibility, WherePredicate, parse_quote};

use super::Replaceable;
use super::lifetimes::{Binder, Lifetimes};

/// Names of the items beside the function.
struct Names {
    /// The type that they belong to.
    owner: Ident,
    site: Ident,
    definition: Ident,
    replaced: Ident,
    run: Ident,
    original: Ident,
    install: Ident,
}

impl Names {
    fn new(function: &Ident, is_method: bool) -> Self {
        let span = function.span();
        let name = function.unraw();
        let one = |word: &str| {
            if is_method {
                format_ident!("__probe_{name}_{word}", span = span)
            } else {
                format_ident!("__probe_{word}", span = span)
            }
        };
        Self {
            owner: if is_method { Ident::new("Self", span) } else { function.clone() },
            // In an `impl` of a trait, the compiler's error shows this name. It is the only way to
            // give the user the reason there.
            site: if is_method {
                format_ident!("__probe_replace_is_for_inherent_impls_{name}", span = span)
            } else {
                one("site")
            },
            definition: one("definition"),
            replaced: one("replaced"),
            run: one("run"),
            original: one("original"),
            install: if is_method {
                format_ident!("{name}_install", span = span)
            } else {
                Ident::new("install", span)
            },
        }
    }
}

/// Returns the function and the items beside it. `krate` is the runtime's path, `probe` the probe's
/// name and notes, `body` the function's body with its probes.
pub(crate) fn emit(
    subject: &Replaceable,
    krate: &TokenStream,
    probe: &TokenTree,
    body: &Group,
) -> TokenStream {
    let names = Names::new(&subject.signature.ident, subject.is_method);
    let function = function(subject, &names);
    let original = original(subject, &names, body);
    let items = items(subject, &names, krate, probe);
    let conditions: Vec<_> = subject.attributes_named(&["cfg"]).collect();
    // For the user's own tokens that are repeated here, and for an `install` that is never called.
    let quiet = quote! {
        #[allow(dead_code, private_interfaces, single_use_lifetimes, unreachable_pub, unused_lifetimes, clippy::all,
            clippy::pedantic)]
    };
    if subject.is_method {
        let mut all = function;
        let [functions @ .., installer] = &items;
        functions.iter().for_each(|item| all.extend(quote!(#(#conditions)* #quiet #item)));
        all.extend(quote!(#(#conditions)* #installer));
        all.extend(quote!(#(#conditions)* #original));
        return all;
    }
    let Names { owner, .. } = &names;
    let visibility = &subject.visibility;
    let doc = format!(" Replaces [`{owner}`](fn@{owner}) at run time, by `{owner}::install`.");
    quote! {
        #function

        #(#conditions)*
        #[doc = #doc]
        #[allow(missing_copy_implementations, missing_debug_implementations, non_camel_case_types, unreachable_pub)]
        #visibility enum #owner {}

        #(#conditions)*
        #quiet
        impl #owner {
            #(#items)*
        }

        #(#conditions)*
        impl #owner {
            #original
        }
    }
}

impl Replaceable {
    fn attributes_named<'a>(&'a self, names: &'a [&str]) -> impl Iterator<Item = &'a Attribute> {
        self.attributes.iter().filter(move |it| names.iter().any(|name| it.path().is_ident(name)))
    }

    fn names(&self) -> impl Iterator<Item = &Ident> {
        self.arguments.iter().map(|argument| &argument.name)
    }

    /// Returns the signature with another name and these arguments.
    fn signature(&self, name: &Ident, arguments: &[TokenStream]) -> Signature {
        let Signature { abi, generics, output, .. } = &self.signature;
        let clause = &generics.where_clause;
        parse_quote!(#abi fn #name #generics (#(#arguments),*) #output #clause)
    }

    fn declared(&self) -> Vec<TokenStream> {
        self.arguments.iter().map(|argument| argument.declared.clone()).collect()
    }
}

fn function(subject: &Replaceable, names: &Names) -> TokenStream {
    let Names { owner, site, replaced, original, .. } = names;
    let (attributes, visibility) = (subject.attributes.iter().map(softened), &subject.visibility);
    let signature = subject.signature(&subject.signature.ident, &subject.declared());
    let arguments: Vec<_> = subject.names().collect();
    quote_spanned! {subject.signature.ident.span()=>
        #(#attributes)*
        #visibility #signature {
            if #owner::#site::<false>().is_active() {
                return #owner::#replaced(#(#arguments),*);
            }
            #owner::#original(#(#arguments),*)
        }
    }
}

/// Returns the body as a separate function. Lints report its signature at the function itself.
fn original(subject: &Replaceable, names: &Names, body: &Group) -> TokenStream {
    let lints = ["allow", "warn", "deny", "forbid", "expect", "track_caller"];
    let attributes = subject.attributes_named(&lints).map(softened);
    let mut signature = subject.signature.clone();
    signature.ident = names.original.clone();
    quote! {
        #(#attributes)*
        #[allow(clippy::inline_always, clippy::too_many_arguments, clippy::unnecessary_wraps)]
        #[inline(always)]
        #signature #body
    }
}

/// Changes `expect` to `allow`: only one of the two functions may cause the expected lint.
fn softened(attribute: &Attribute) -> TokenStream {
    if !attribute.path().is_ident("expect") {
        return attribute.to_token_stream();
    }
    let mut attribute = attribute.clone();
    if let syn::Meta::List(list) = &mut attribute.meta {
        list.path = parse_quote!(allow);
    }
    attribute.to_token_stream()
}

/// Returns all items but the function and its body.
fn items(subject: &Replaceable, names: &Names, krate: &TokenStream, probe: &TokenTree) -> [TokenStream; 5] {
    let Names { owner, site, definition, replaced, run, original, install } = names;
    let v1 = quote!(#krate::__private::v1);
    let tracked: Vec<_> = subject.attributes_named(&["track_caller"]).collect();
    let arguments: Vec<_> = subject.names().collect();

    let replaced_signature = subject.signature(replaced, &subject.declared());
    // The receiver can't have the name `self` there.
    let plain: Vec<Ident> = arguments.iter().map(|name| plain(name)).collect();
    let run_signature = run_signature(subject, run, &v1, &plain);
    let closure = closure(subject, &v1);
    let title = subject.signature.ident.to_string();
    let docs = [
        format!(
            " Installs a closure that runs instead of `{title}`, until what is returned is dropped. It is handed"
        ),
        " the function as it was before, and the call's arguments.".to_owned(),
        String::new(),
        " # Errors".to_owned(),
        " Where not every site of the function can be activated, and where there are none.".to_owned(),
    ];
    // Attributes on a macro call don't reach its expansion.
    let quiet_install = quote!(#[allow(dead_code, private_interfaces, unreachable_pub)]);
    let installer = installer_signature(subject, install, &v1, &closure);
    [
        quote_spanned! {subject.signature.ident.span()=>
            #[inline(always)]
            fn #site<const ASKED: #v1::bool>() -> #v1::Passed {
                #v1::replace_site! { ASKED, #probe }
            }
        },
        quote! {
            #[inline(never)]
            fn #definition() -> #v1::Passed {
                #owner::#site::<true>()
            }
        },
        quote! {
            #(#tracked)*
            #[cold]
            #[inline(never)]
            #replaced_signature {
                #owner::#run(#owner::#definition().share().left(), #(#arguments),*)
            }
        },
        quote! {
            #(#tracked)*
            #run_signature {
                match __probe_left.next::<#owner, dyn #closure>() {
                    #v1::Some((__probe_closure, __probe_left)) => {
                        __probe_closure(&|#(#plain),*| #owner::#run(__probe_left, #(#plain),*), #(#plain),*)
                    }
                    #v1::None => #owner::#original(#(#plain),*),
                }
            }
        },
        quote! {
            #v1::installer! {
                #(#[doc = #docs])*
                #quiet_install
                    #installer {
                    #v1::install::<#owner, dyn #closure, _>(#owner::#definition(), closure, |closure| #v1::Box::new(closure))
                }
            }
        },
    ]
}

fn plain(name: &Ident) -> Ident {
    if name == "self" { Ident::new("__probe_self", name.span()) } else { name.clone() }
}

fn run_signature(subject: &Replaceable, run: &Ident, v1: &TokenStream, names: &[Ident]) -> Signature {
    let Signature { generics, abi: _, .. } = &subject.signature;
    let mut generics = generics.clone();
    generics
        .params
        .extend(subject.lifetimes.elided.iter().map(|it| -> syn::GenericParam { parse_quote!(#it) }));
    let clause = generics.where_clause.take();
    let types = &subject.types;
    let result = subject.result.iter();
    parse_quote!(fn #run #generics (__probe_left: #v1::Left<'_>, #(#names: #types),*) #(-> #result)* #clause)
}

/// Returns the closure's type, as bounds.
fn closure(subject: &Replaceable, v1: &TokenStream) -> TokenStream {
    let Replaceable { types, result, lifetimes, .. } = subject;
    let call = |binder| {
        let arguments = types.iter().map(move |ty| lifetimes.within(binder, ty));
        let result = result.iter().map(|ty| lifetimes.within(binder, ty));
        let bound = lifetimes.bound_by(binder);
        let bound = (!bound.is_empty()).then(|| quote!(for<#(#bound),*>));
        (bound, quote!(#(#arguments),*), quote!(#(-> #result)*))
    };
    let (bound, arguments, result) = call(Binder::Original);
    let original = quote!(&dyn #bound #v1::Fn(#arguments) #result);
    let (bound, arguments, result) = call(Binder::Call);
    quote!(#bound #v1::Fn(#original, #arguments) #result + #v1::Send + #v1::Sync)
}

fn installer_signature(
    subject: &Replaceable,
    install: &Ident,
    v1: &TokenStream,
    closure: &TokenStream,
) -> TokenStream {
    let visibility: &Visibility = &subject.visibility;
    // Predicates on the function's own lifetimes have no meaning here.
    let predicates = subject.signature.generics.where_clause.iter().flat_map(|clause| &clause.predicates);
    let predicates: Vec<&WherePredicate> = predicates.filter(|it| !Lifetimes::are_in(it)).collect();
    let clause = (!predicates.is_empty()).then(|| quote!(where #(#predicates),*));
    quote! {
        #visibility fn #install(closure: impl #closure + 'static) -> #v1::Result<#v1::Replacement, #v1::Error> #clause
    }
}
