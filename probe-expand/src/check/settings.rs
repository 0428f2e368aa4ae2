//! The arguments of `#[probe(…)]`: one entry in [`KEYS`] for each.

use proc_macro2::{Ident, TokenStream};
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::{LitStr, Path, Token};

use super::{fields, filter, name, name_not_literal, nameable};
use crate::asynchronous::DEFERRED;
use crate::model::{Arg, ArgsList, Errors, Filter, Given, Replace, RetList, Settings};
use crate::parse;

/// Greatest length of `doc`: enough for a sentence or two, as it is part of the program.
const MAX_DOC: usize = 1_000;

/// One argument that `#[probe(…)]` takes.
struct Key {
    word: &'static str,
    /// The way to write it, for messages.
    form: &'static str,
    /// Checks the rest of the argument, and stores it in the settings.
    take: fn(&Arg, &mut Settings, &mut Errors),
}

const KEYS: [Key; 12] = [
    Key { word: "name", form: "name = \"…\"", take: take_name },
    Key { word: "group", form: "group = \"…\"", take: take_group },
    Key { word: "doc", form: "doc = \"…\"", take: take_doc },
    Key { word: "skip", form: "skip", take: |arg, settings, errors| settings.skip = flag(arg, errors) },
    Key {
        word: "only",
        form: "only(\"…\")",
        take: |arg, settings, errors| settings.only = globs(arg, errors),
    },
    Key {
        word: "except",
        form: "except(\"…\")",
        take: |arg, settings, errors| settings.except = globs(arg, errors),
    },
    Key { word: "all", form: "all", take: |arg, settings, errors| settings.all = flag(arg, errors) },
    Key { word: "crate", form: "crate = path", take: take_crate },
    Key { word: "args", form: "args(…)", take: take_args },
    Key { word: "ret", form: "ret", take: take_ret },
    Key { word: "replace", form: "replace", take: take_replace },
    Key { word: "usdt", form: "usdt", take: |arg, settings, errors| settings.usdt = flag(arg, errors) },
];

/// Parses and checks the arguments of `#[probe(…)]`. A refused argument counts as absent, so that
/// the rest of the expansion adds no errors of its own.
pub(crate) fn settings(args: &[Arg], errors: &mut Errors) -> Settings {
    let mut settings = Settings::default();
    let mut seen: Vec<&Ident> = Vec::new();
    for arg in args {
        let Some(key) = &arg.key else {
            errors.at(&arg.tokens, not_an_argument(&arg.tokens));
            continue;
        };
        if key == DEFERRED {
            settings.is_deferred = true;
            continue;
        }
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
    if let Some(skip) = settings.skip.as_ref().filter(|_| args.len() > 1) {
        errors.at(
            skip,
            "`skip` stands alone: what is left out takes no other arguments; remove them, or `skip`",
        );
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

/// Returns the value of `key = value`, and the tokens to underline if it is wrong.
fn value<'a>(arg: &'a Arg, errors: &mut Errors) -> Option<(&'a TokenStream, &'a TokenStream)> {
    match &arg.given {
        // An empty value has no span, so the whole argument is underlined.
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
    settings.name = literal(arg, || name_not_literal("name = \"…\""), errors);
    settings.name.iter().for_each(|literal| name(literal, errors));
}

fn take_group(arg: &Arg, settings: &mut Settings, errors: &mut Errors) {
    settings.group = literal(arg, || text_not_literal("group", "group = \"net\""), errors);
    settings.group.iter().for_each(|literal| nameable("group", literal, errors));
}

fn take_doc(arg: &Arg, settings: &mut Settings, errors: &mut Errors) {
    settings.doc = literal(arg, || text_not_literal("doc", "doc = \"What a hit means.\""), errors);
    let Some(literal) = &settings.doc else { return };
    let text = literal.value();
    if text.trim().is_empty() {
        errors.at(literal, "the `doc` of a probe can't be empty");
    } else if text.contains(char::is_control) {
        errors
            .at(literal, "the `doc` of a probe is one line: no line feeds, tabs or other control characters");
    } else if text.len() > MAX_DOC {
        let problem =
            format!("the `doc` of a probe has at most {MAX_DOC} bytes, and this one {}", text.len());
        errors.at(literal, problem);
    }
}

/// Returns the value of `key = "…"`.
fn literal(arg: &Arg, problem: impl FnOnce() -> String, errors: &mut Errors) -> Option<LitStr> {
    let (value, place) = value(arg, errors)?;
    syn::parse2(value.clone()).map_err(|_| errors.at(place, problem())).ok()
}

fn text_not_literal(key: &str, example: &str) -> String {
    format!(
        "the `{key}` of a probe must be a string literal, since it is part of the compiled program; write `{example}`"
    )
}

/// Returns the word of an argument that is only a word.
fn flag(arg: &Arg, errors: &mut Errors) -> Option<Ident> {
    let key = arg.key.clone()?;
    if !matches!(arg.given, Given::Nothing) {
        errors.at(&arg.tokens, format!("`{key}` takes no value; write `{key}` alone"));
        return None;
    }
    Some(key)
}

fn globs(arg: &Arg, errors: &mut Errors) -> Option<Filter> {
    let word = arg.key.clone()?;
    let parser = Punctuated::<LitStr, Token![,]>::parse_terminated;
    let parsed = match &arg.given {
        Given::List(list) => parser.parse2(list.stream()).ok(),
        Given::Nothing | Given::Value(_) => None,
    };
    let Some(parsed) = parsed.filter(|globs| !globs.is_empty()) else {
        let problem = format!(
            "`{word}` takes a list of globs in string literals: write `{word}(\"get_*\", \"Type::new\")`"
        );
        errors.at(&arg.tokens, problem);
        return None;
    };
    let globs = parsed.into_iter().filter(|glob| filter::check(glob, errors)).collect();
    Some(Filter { word, globs })
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

const ARGS_FORMS: &str =
    "write `args(*)` for all arguments, or fields: `args(id, ?request, rows = rows.len())`";
const RET_FORMS: &str = "write `ret` for the result, or fields: `ret(?ret, len = ret.len())`";

fn take_args(arg: &Arg, settings: &mut Settings, errors: &mut Errors) {
    let (Some(key), Given::List(list)) = (&arg.key, &arg.given) else {
        errors.at(&arg.tokens, format!("`args` takes a list; {ARGS_FORMS}"));
        return;
    };
    if list.stream().is_empty() {
        errors.at(&arg.tokens, format!("`args` records nothing; {ARGS_FORMS}"));
        return;
    }
    match parse::args_list(list.stream()) {
        Ok((all, list)) => {
            fields::check(&list, errors);
            settings.args =
                Some(ArgsList { tokens: arg.tokens.clone(), key: key.clone(), all, fields: list });
        }
        Err(error) => errors.push(error),
    }
}

fn take_ret(arg: &Arg, settings: &mut Settings, errors: &mut Errors) {
    let Some(key) = &arg.key else { return };
    let fields = match &arg.given {
        Given::Nothing => None,
        Given::Value(_) => {
            errors.at(&arg.tokens, format!("`ret` takes no value; {RET_FORMS}"));
            return;
        }
        Given::List(list) if list.stream().is_empty() => {
            errors.at(&arg.tokens, format!("`ret()` records nothing; {RET_FORMS}"));
            return;
        }
        Given::List(list) => match parse::ret_list(list.stream()) {
            Ok(list) => {
                fields::check(&list, errors);
                Some(list)
            }
            Err(error) => {
                errors.push(error);
                return;
            }
        },
    };
    settings.ret = Some(RetList { tokens: arg.tokens.clone(), key: key.clone(), fields });
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
    settings.replace = Some(Replace { tokens: arg.tokens.clone(), is_method });
}
