//! Prints an expression as text that parses to the same tree.

use std::fmt::{self, Write};

use super::tree::{Node, Part};

/// How closely an expression binds, from `||` to a single word.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Binding {
    Or,
    And,
    Compare,
    Sum,
    Product,
    Unary,
    Word,
}

impl Node {
    fn binding(&self) -> Binding {
        match &self.part {
            Part::Or(..) => Binding::Or,
            Part::And(..) => Binding::And,
            Part::Compare(..) => Binding::Compare,
            Part::Calculate(operator, ..) if operator.is_sum() => Binding::Sum,
            Part::Calculate(..) => Binding::Product,
            Part::Negative(_) | Part::Not(_) => Binding::Unary,
            _ => Binding::Word,
        }
    }

    /// Prints the expression, in brackets if it binds less than it must.
    fn print(&self, least: Binding, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.binding() >= least {
            return write!(f, "{self}");
        }
        write!(f, "({self})")
    }
}

/// The next binding: of the right operand, since operators group to the left.
fn closer(binding: Binding) -> Binding {
    match binding {
        Binding::Or => Binding::And,
        Binding::And => Binding::Compare,
        Binding::Compare => Binding::Sum,
        Binding::Sum => Binding::Product,
        Binding::Product => Binding::Unary,
        Binding::Unary | Binding::Word => Binding::Word,
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let binding = self.binding();
        let mut between = |left: &Node, operator: &str, right: &Node| {
            // A comparison has no comparison on its left.
            let left_least = if binding == Binding::Compare { closer(binding) } else { binding };
            left.print(left_least, f)?;
            write!(f, " {operator} ")?;
            right.print(closer(binding), f)
        };
        match &self.part {
            Part::Or(left, right) => between(left, "||", right),
            Part::And(left, right) => between(left, "&&", right),
            Part::Compare(operator, left, right) => between(left, operator.symbol(), right),
            Part::Calculate(operator, left, right) => between(left, operator.symbol(), right),
            Part::Int(number) => write!(f, "{number}"),
            Part::Float(number) => {
                let text = number.to_string();
                f.write_str(&text)?;
                // Without a point it would be an integer.
                if text.contains('.') { Ok(()) } else { f.write_str(".0") }
            }
            Part::Bool(truth) => write!(f, "{truth}"),
            Part::Char(c) => quoted(&c.to_string(), '\'', f),
            Part::Text(text) => quoted(text, '"', f),
            Part::Name(name) => f.write_str(name),
            Part::Len(of) => write!(f, "len({of})"),
            Part::Negative(of) => {
                f.write_char('-')?;
                of.print(Binding::Unary, f)
            }
            Part::Not(of) => {
                f.write_char('!')?;
                of.print(Binding::Unary, f)
            }
            Part::First(hits) => write!(f, "first {hits}"),
            Part::OneIn(hits) => write!(f, "1 in {hits}"),
        }
    }
}

fn quoted(text: &str, quote: char, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_char(quote)?;
    for c in text.chars() {
        match c {
            '\n' => f.write_str("\\n")?,
            '\t' => f.write_str("\\t")?,
            '\r' => f.write_str("\\r")?,
            '\\' => f.write_str("\\\\")?,
            c if c == quote => write!(f, "\\{c}")?,
            c => f.write_char(c)?,
        }
    }
    f.write_char(quote)
}
