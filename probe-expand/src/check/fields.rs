//! The rules for fields.
//!
//! The value of a field is evaluated only while the probe is active, so the program must not notice
//! whether it was. The check refuses all jumps and side effects that the syntax shows. A call can
//! do anything; the documentation says that it must not change what the program does.
//!
//! The fields of a probe with `usdt` are arguments of a USDT probe too. Tools read them from
//! registers while the probe is latent, so nothing may be computed for them.

use proc_macro2::Span;
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};
use syn::{BinOp, Expr, Ident, Lifetime, PointerMutability, Token};

use super::Captures;
use crate::model::{Errors, Field, Point, RetList, Settings};

/// Greatest number of fields. A definition could count 255, but no reader follows that many.
pub(super) const MAX_FIELDS: usize = 32;

/// Checks the fields of one probe, as they are written.
pub(super) fn check(fields: &[Field], errors: &mut Errors) {
    let mut seen: Vec<String> = Vec::new();
    for field in fields {
        let name = field.name.unraw().to_string();
        if seen.contains(&name) {
            errors.at(
                &field.name,
                format!("duplicate field `{name}`; give each field of a probe its own name"),
            );
        }
        seen.push(name);
        check_value(&field.expr, errors);
    }
}

pub(super) fn too_many(fields: &[Field], most: usize, whose: &str, errors: &mut Errors) {
    if let Some(field) = fields.get(most) {
        let count = fields.len();
        errors.at(
            &field.name,
            format!("{whose} has at most {most} fields, and this one has {count}; remove some, or join them"),
        );
    }
}

/// Greatest number of fields: an unoptimised build keeps three registers for each.
const MAX_USDT_FIELDS: usize = 4;

/// Checks the fields of a function's probes.
pub(super) fn usdt_of_function(settings: &Settings, captures: &Captures, errors: &mut Errors) {
    if settings.usdt.is_none() {
        return;
    }
    check_variables(
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
pub(super) fn usdt_of_point(point: &Point, errors: &mut Errors) {
    if point.is_usdt {
        let help = |name| format!("write `let {name} = …;` before `probe!(usdt, \"…\", {name})`");
        check_variables(&point.fields, help, errors);
    }
}

fn check_variables(fields: &[Field], help: impl Fn(Ident) -> String, errors: &mut Errors) {
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
    too_many(fields, MAX_USDT_FIELDS, "a probe with `usdt`", errors);
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

fn check_value(expr: &Expr, errors: &mut Errors) {
    Search { errors, within: Within::default() }.visit_expr(expr);
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Body {
    Closure,
    /// An `async` block or closure: `.await` stays inside, too.
    Future,
}

struct Search<'e> {
    errors: &'e mut Errors,
    within: Within,
}

/// The constructs around the place of the search, inside of the field's own expression.
#[derive(Default)]
struct Within {
    /// The innermost function-like body: `return` and `?` stay inside.
    body: Option<Body>,
    /// A `try` block: `?` stays inside.
    try_block: bool,
    /// A loop: `break` and `continue` stay inside.
    in_loop: bool,
    labels: Vec<Lifetime>,
}

impl Search<'_> {
    fn control_flow(&mut self, place: impl ToTokens, what: &str) {
        self.errors.at(
            place,
            format!(
                "{what} in a field: a probe's fields are evaluated only while the probe is active, so they can't \
                 change control flow; compute the value before the probe"
            ),
        );
    }

    fn side_effect(&mut self, place: impl ToTokens, what: &str, instead: &str) {
        self.errors.at(
            place,
            format!(
                "{what} in a field: a probe's fields are evaluated only while the probe is active, so they can't have \
                 side effects such as assignment; {instead}"
            ),
        );
    }

    fn jump(&mut self, place: Span, what: &str, label: Option<&Lifetime>) {
        let stays = match label {
            Some(label) => self.within.labels.contains(label),
            None => self.within.in_loop,
        };
        if !stays {
            let token = Ident::new(what, place);
            self.control_flow(token, &format!("`{what}`"));
        }
    }

    /// Searches a closure or `async` block, from which jumps can't leave.
    fn body(&mut self, body: Body, search: impl FnOnce(&mut Self)) {
        let inner = Within { body: Some(body), ..Within::default() };
        let outer = std::mem::replace(&mut self.within, inner);
        search(self);
        self.within = outer;
    }

    /// Searches a loop or block that jumps can leave.
    fn leavable(&mut self, is_loop: bool, label: Option<&syn::Label>, search: impl FnOnce(&mut Self)) {
        let outer = self.within.in_loop;
        self.within.in_loop |= is_loop;
        self.within.labels.extend(label.map(|label| label.name.clone()));
        search(self);
        if label.is_some() {
            self.within.labels.pop();
        }
        self.within.in_loop = outer;
    }
}

impl<'ast> Visit<'ast> for Search<'_> {
    fn visit_expr_return(&mut self, node: &'ast syn::ExprReturn) {
        if self.within.body.is_none() {
            self.control_flow(node.return_token, "`return`");
        }
        visit::visit_expr_return(self, node);
    }

    fn visit_expr_try(&mut self, node: &'ast syn::ExprTry) {
        if self.within.body.is_none() && !self.within.try_block {
            self.control_flow(node.question_token, "`?`");
        }
        visit::visit_expr_try(self, node);
    }

    fn visit_expr_await(&mut self, node: &'ast syn::ExprAwait) {
        if self.within.body != Some(Body::Future) {
            self.control_flow(node.await_token, "`.await`");
        }
        visit::visit_expr_await(self, node);
    }

    fn visit_expr_yield(&mut self, node: &'ast syn::ExprYield) {
        if self.within.body.is_none() {
            self.control_flow(node.yield_token, "`yield`");
        }
        visit::visit_expr_yield(self, node);
    }

    fn visit_expr_break(&mut self, node: &'ast syn::ExprBreak) {
        self.jump(node.break_token.span, "break", node.label.as_ref());
        visit::visit_expr_break(self, node);
    }

    fn visit_expr_continue(&mut self, node: &'ast syn::ExprContinue) {
        self.jump(node.continue_token.span, "continue", node.label.as_ref());
    }

    fn visit_expr_loop(&mut self, node: &'ast syn::ExprLoop) {
        self.leavable(true, node.label.as_ref(), |this| visit::visit_expr_loop(this, node));
    }

    fn visit_expr_while(&mut self, node: &'ast syn::ExprWhile) {
        self.leavable(true, node.label.as_ref(), |this| visit::visit_expr_while(this, node));
    }

    fn visit_expr_for_loop(&mut self, node: &'ast syn::ExprForLoop) {
        // The iterated expression runs outside of the loop.
        self.visit_expr(&node.expr);
        self.visit_pat(&node.pat);
        self.leavable(true, node.label.as_ref(), |this| this.visit_block(&node.body));
    }

    fn visit_expr_block(&mut self, node: &'ast syn::ExprBlock) {
        self.leavable(false, node.label.as_ref(), |this| visit::visit_expr_block(this, node));
    }

    fn visit_expr_closure(&mut self, node: &'ast syn::ExprClosure) {
        let body = if node.asyncness.is_some() { Body::Future } else { Body::Closure };
        self.body(body, |this| visit::visit_expr_closure(this, node));
    }

    fn visit_expr_async(&mut self, node: &'ast syn::ExprAsync) {
        self.body(Body::Future, |this| visit::visit_expr_async(this, node));
    }

    fn visit_expr_try_block(&mut self, node: &'ast syn::ExprTryBlock) {
        let outer = std::mem::replace(&mut self.within.try_block, true);
        visit::visit_expr_try_block(self, node);
        self.within.try_block = outer;
    }

    fn visit_expr_assign(&mut self, node: &'ast syn::ExprAssign) {
        self.side_effect(node.eq_token, "assignment", "assign before the probe");
        visit::visit_expr_assign(self, node);
    }

    fn visit_expr_binary(&mut self, node: &'ast syn::ExprBinary) {
        if is_assignment(&node.op) {
            self.side_effect(node.op, "assignment", "assign before the probe");
        }
        visit::visit_expr_binary(self, node);
    }

    fn visit_expr_reference(&mut self, node: &'ast syn::ExprReference) {
        if let Some(mutability) = node.mutability {
            self.side_effect(mutability, "`&mut`", "borrow with `&`");
        }
        visit::visit_expr_reference(self, node);
    }

    fn visit_expr_raw_addr(&mut self, node: &'ast syn::ExprRawAddr) {
        if let PointerMutability::Mut(mutability) = node.mutability {
            self.side_effect(mutability, "`&raw mut`", "take the address with `&raw const`");
        }
        visit::visit_expr_raw_addr(self, node);
    }

    fn visit_pat_ident(&mut self, node: &'ast syn::PatIdent) {
        if let (Some(_), Some(mutability)) = (node.by_ref, node.mutability) {
            self.side_effect(mutability, "`ref mut`", "bind with `ref`");
        }
        visit::visit_pat_ident(self, node);
    }

    /// Most macros (`format!`, `matches!`, `vec!`) take expressions. Other arguments are not
    /// searched.
    fn visit_macro(&mut self, node: &'ast syn::Macro) {
        let expressions = Punctuated::<Expr, Token![,]>::parse_terminated;
        for expr in expressions.parse2(node.tokens.clone()).into_iter().flatten() {
            match expr {
                // A named argument, as in `format!`.
                Expr::Assign(assign) if matches!(*assign.left, Expr::Path(_)) => {
                    self.search_owned(&assign.right);
                }
                expr => self.search_owned(&expr),
            }
        }
    }

    /// An item in a block is a separate function, or has no code.
    fn visit_item(&mut self, _: &'ast syn::Item) {}
}

impl Search<'_> {
    /// The same as `visit_expr`, for an expression that doesn't outlive the visit.
    fn search_owned(&mut self, expr: &Expr) {
        <Self as Visit<'_>>::visit_expr(self, expr);
    }
}

fn is_assignment(op: &BinOp) -> bool {
    matches!(
        op,
        BinOp::AddAssign(_)
            | BinOp::SubAssign(_)
            | BinOp::MulAssign(_)
            | BinOp::DivAssign(_)
            | BinOp::RemAssign(_)
            | BinOp::BitXorAssign(_)
            | BinOp::BitAndAssign(_)
            | BinOp::BitOrAssign(_)
            | BinOp::ShlAssign(_)
            | BinOp::ShrAssign(_)
    )
}
