//! The arguments of `#[probe(…)]`: one entry in [`KEYS`] for each.

use proc_macro2::{Ident, TokenStream};
use syn::parse::Parser;
use syn::{LitStr, Path};

use super::{name, name_not_literal};
use crate::errors::Errors;
use crate::model::{Arg, Given, Replace, Settings};

/// One argument that `#[probe(…)]` takes.
struct Key {
    word: &'static str,
    /// How it is written, for messages.
    form: &'static str,
    /// Judges what follows it.
    take: fn(&Arg, &mut Settings, &mut Errors),
}

const KEYS: [Key; 3] = [
    Key { word: "name", form: "name = \"…\"", take: take_name },
    Key { word: "crate", form: "crate = path", take: take_crate },
    Key { word: "replace", form: "replace", take: take_replace },
];

/// The arguments of `#[probe(…)]`. A refused one counts as absent, so that the rest of the expansion doesn't
/// add errors of its own.
pub(crate) fn settings(args: &[Arg], errors: &mut Errors) -> Settings {
    let mut settings = Settings::default();
    let mut seen: Vec<&Ident> = Vec::new();
    for arg in args {
        let Some(key) = &arg.key else {
            errors.at(&arg.tokens, not_an_argument(&arg.tokens));
            continue;
        };
        let Some(known) = KEYS.iter().find(|known| key == known.word) else {
            errors.at(key, format!("unknown argument `{key}`; {}", all_forms()));
            continue;
        };
        if seen.contains(&key) {
            errors.at(&arg.tokens, format!("duplicate argument `{key}`; remove one of the two"));
            continue;
        }
        seen.push(key);
        (known.take)(arg, &mut settings, errors);
    }
    settings
}

fn all_forms() -> String {
    let forms: Vec<_> = KEYS.iter().map(|key| format!("`{}`", key.form)).collect();
    match forms.split_last() {
        Some((last, [])) => format!("`#[probe]` takes {last}"),
        Some((last, rest)) => format!("`#[probe]` takes {} and {last}", rest.join(", ")),
        None => "`#[probe]` takes no arguments".to_owned(),
    }
}

fn not_an_argument(tokens: &TokenStream) -> String {
    match syn::parse2::<LitStr>(tokens.clone()) {
        Ok(literal) => format!("to name the probe, write `name = {:?}`; {}", literal.value(), all_forms()),
        Err(_) => format!("expected an argument of the form `key = value`; {}", all_forms()),
    }
}

/// The value of `key = value`, and where to show what is wrong with it.
fn value<'a>(arg: &'a Arg, errors: &mut Errors) -> Option<(&'a TokenStream, &'a TokenStream)> {
    match &arg.given {
        // An empty value has no span: the whole argument is underlined.
        Given::Value(value) if value.is_empty() => Some((value, &arg.tokens)),
        Given::Value(value) => Some((value, value)),
        Given::Nothing | Given::List(_) => {
            let key = arg.key.as_ref().map_or_else(String::new, ToString::to_string);
            errors.at(&arg.tokens, format!("`{key}` needs a value after `=`; {}", all_forms()));
            None
        }
    }
}

fn take_name(arg: &Arg, settings: &mut Settings, errors: &mut Errors) {
    let Some((value, place)) = value(arg, errors) else { return };
    match syn::parse2::<LitStr>(value.clone()) {
        Ok(literal) => {
            name(&literal, errors);
            settings.name = Some(literal);
        }
        Err(_) => errors.at(place, name_not_literal("name = \"…\"")),
    }
}

fn take_crate(arg: &Arg, settings: &mut Settings, errors: &mut Errors) {
    let Some((value, place)) = value(arg, errors) else { return };
    if Path::parse_mod_style.parse2(value.clone()).is_ok() {
        settings.krate = Some(value.clone());
    } else {
        let problem = "`crate` takes the path of `probe_runtime`, such as `crate = my_crate::probe_runtime`";
        errors.at(place, problem);
    }
}

fn take_replace(arg: &Arg, settings: &mut Settings, errors: &mut Errors) {
    let is_method = match &arg.given {
        Given::Nothing => false,
        Given::List(list) if list.stream().to_string() == "method" => true,
        Given::List(_) | Given::Value(_) => {
            let problem =
                "write `replace`, or `replace(method)` for a function of an `impl` that takes no `self`";
            return errors.at(&arg.tokens, problem);
        }
    };
    settings.replace = Some(Replace { is_method });
}
