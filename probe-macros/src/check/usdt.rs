//! The rules for the fields of a probe with `usdt`, which are arguments of a USDT probe too. Tools
//! read them from registers while the probe is latent, so nothing may be computed for them.

use syn::ext::IdentExt;
use syn::{Expr, Ident};

use super::too_many;
use crate::errors::Errors;
use crate::model::{Captures, Field, Point, RetList, Settings};

/// Greatest number of fields: an unoptimised build keeps three registers for each.
const MAX_FIELDS: usize = 4;

/// Checks the fields of a function's probes.
pub(super) fn function(settings: &Settings, captures: &Captures, errors: &mut Errors) {
    if settings.usdt.is_none() {
        return;
    }
    fields(
        &captures.entry,
        |name| {
            format!(
                "pass an argument as it is, or write `let {name} = …;` and `probe!(usdt, \"…\", {name})` in the body"
            )
        },
        errors,
    );
    if let Some(RetList { key, fields: Some(_), .. }) = &settings.ret {
        errors.at(
            key,
            "with `usdt`, `ret` has no fields: a latent probe computes nothing for a tool, so it passes the result \
             itself; write `ret`, or remove one of the two",
        );
    }
}

/// Checks the fields of a `probe!(usdt, …)`.
pub(super) fn point(point: &Point, errors: &mut Errors) {
    if point.is_usdt {
        let help = |name| format!("write `let {name} = …;` before `probe!(usdt, \"…\", {name})`");
        fields(&point.fields, help, errors);
    }
}

fn fields(fields: &[Field], help: impl Fn(Ident) -> String, errors: &mut Errors) {
    for Field { name, expr, .. } in fields {
        if !is_variable(expr) {
            let help = help(name.unraw());
            errors.at(
                expr,
                format!(
                    "with `usdt`, a field is a variable: tools read it from its register, and a latent probe computes \
                     nothing; {help}"
                ),
            );
        }
    }
    too_many(fields, MAX_FIELDS, "a probe with `usdt`", errors);
}

fn is_variable(expr: &Expr) -> bool {
    match expr {
        Expr::Path(path) => path.qself.is_none() && path.path.get_ident().is_some(),
        Expr::Group(group) => is_variable(&group.expr),
        Expr::Paren(paren) => is_variable(&paren.expr),
        // A variable of `args(*)`.
        Expr::Verbatim(_) => true,
        _ => false,
    }
}
