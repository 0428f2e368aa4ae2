//! Cutting an expression into words.

use crate::error::ParseError;
use crate::units::factor;

/// One word of an expression.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Token<'a> {
    Int(i128),
    Float(f64),
    Char(char),
    Text(String),
    Name(&'a str),
    /// An operator or a bracket.
    Symbol(&'static str),
    End,
}

/// Operators and brackets; a longer one comes before its beginning.
const SYMBOLS: [&str; 20] = [
    "&&", "||", "==", "!=", "<=", ">=", "!~", "<", ">", "~", "!", "+", "-", "*", "/", "%", "(", ")", ",", "]",
];

/// Returns the word that begins at `at`, and where it ends. Whitespace before it is skipped.
pub(super) fn token(text: &str, at: usize) -> Result<(usize, Token<'_>, usize), ParseError> {
    let at = text.len() - text[at..].trim_start().len();
    let rest = &text[at..];
    let Some(first) = rest.chars().next() else { return Ok((at, Token::End, at)) };
    if first.is_ascii_digit() {
        let (token, len) = number(rest).map_err(|error| error.after(at))?;
        return Ok((at, token, at + len));
    }
    if first == '"' || first == '\'' {
        let (inner, len) = quoted(rest, first).map_err(|error| error.after(at))?;
        if first == '"' {
            return Ok((at, Token::Text(inner), at + len));
        }
        let mut chars = inner.chars();
        return match (chars.next(), chars.next()) {
            (Some(c), None) => Ok((at, Token::Char(c), at + len)),
            _ => {
                Err(ParseError { at, problem: "one character stands in `'`; text stands in `\"`".to_owned() })
            }
        };
    }
    if is_name_start(first) {
        let len = rest.find(|c: char| !is_name_start(c) && !c.is_numeric()).unwrap_or(rest.len());
        return Ok((at, Token::Name(&rest[..len]), at + len));
    }
    if let Some(symbol) = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
        return Ok((at, Token::Symbol(symbol), at + symbol.len()));
    }
    let problem = match first {
        '=' => "compare by `==`".to_owned(),
        '&' => "write `&&`".to_owned(),
        '|' => "write `||`".to_owned(),
        other => format!("`{other}` can't be part of an expression"),
    };
    Err(ParseError { at, problem })
}

fn is_name_start(c: char) -> bool {
    c.is_alphabetic() || c == '_'
}

fn wrong(problem: impl Into<String>) -> ParseError {
    ParseError { at: 0, problem: problem.into() }
}

/// Reads a number and its unit.
fn number(text: &str) -> Result<(Token<'_>, usize), ParseError> {
    let too_large = || wrong("this number is too large");
    if let Some(hex) = text.strip_prefix("0x") {
        let len = hex.find(|c: char| !c.is_ascii_hexdigit() && c != '_').unwrap_or(hex.len());
        let digits = hex[..len].replace('_', "");
        if digits.is_empty() || hex[len..].starts_with(|c: char| c.is_alphanumeric()) {
            return Err(wrong("this is not a hexadecimal number; write `0x1f`"));
        }
        let value = i128::from_str_radix(&digits, 16).map_err(|_| too_large())?;
        return Ok((Token::Int(value), 2 + len));
    }
    let is_digit = |c: char| c.is_ascii_digit() || c == '_';
    let whole = text.find(|c: char| !is_digit(c)).unwrap_or(text.len());
    let mut len = whole;
    if let Some(fraction) = text[whole..].strip_prefix('.')
        && fraction.starts_with(|c: char| c.is_ascii_digit())
    {
        len += 1 + fraction.find(|c: char| !is_digit(c)).unwrap_or(fraction.len());
    }
    let digits = text[..len].replace('_', "");
    let rest = &text[len..];
    let unit = &rest[..rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len())];
    let factor = match unit {
        "" => None,
        unit => Some(factor(unit).map(i128::from).ok_or_else(|| {
            wrong(format!("`{unit}` is not a unit; there are ns, us, ms, s, m, h, and B, K, M, G"))
        })?),
    };
    let len = len + unit.len();
    if !digits.contains('.') {
        let value = digits.parse::<i128>().ok().and_then(|value| value.checked_mul(factor.unwrap_or(1)));
        return value.map(|value| (Token::Int(value), len)).ok_or_else(too_large);
    }
    let value: f64 = digits.parse().map_err(|_| too_large())?;
    let Some(factor) = factor else {
        return if value.is_finite() { Ok((Token::Float(value), len)) } else { Err(too_large()) };
    };
    let scaled = (value * factor as f64).round();
    if !(0.0..1e38).contains(&scaled) {
        return Err(too_large());
    }
    #[expect(clippy::cast_possible_truncation, reason = "checked above")]
    let scaled = scaled as i128;
    Ok((Token::Int(scaled), len))
}

/// Reads a text in quotes; a backslash escapes.
fn quoted(text: &str, quote: char) -> Result<(String, usize), ParseError> {
    let mut inner = String::new();
    let mut chars = text.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        match c {
            c if c == quote => return Ok((inner, at + c.len_utf8())),
            '\\' => match chars.next() {
                Some((_, 'n')) => inner.push('\n'),
                Some((_, 't')) => inner.push('\t'),
                Some((_, 'r')) => inner.push('\r'),
                Some((_, c @ ('\\' | '"' | '\''))) => inner.push(c),
                Some((at, c)) => {
                    let problem =
                        format!("`\\{c}` is not an escape; there are \\n, \\t, \\r, \\\\, \\\" and \\'");
                    return Err(ParseError { at, problem });
                }
                None => break,
            },
            c => inner.push(c),
        }
    }
    Err(wrong(format!("the closing `{quote}` is missing")))
}
