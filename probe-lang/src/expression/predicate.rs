//! A condition on hits, as a value.

use std::fmt;
use std::str::FromStr;

use super::parse::Parser;
use super::tree::Node;
use crate::error::ParseError;

/// A condition on a probe's hits: `bytes > 1024 && peer ~ "10.*"`. A consumer
/// attached with one (`ProbeSet::attach_if`) gets the hits that fulfil it. It parses from
/// text, and prints as text that parses to the same.
///
/// | in the text | is |
/// |---|---|
/// | `bytes` | a field, by its name; fields that format themselves (`?x`, `%x`) can't be compared |
/// | `len(peer)` | the length of a text, in bytes |
/// | `thread` | the thread's number, from 1; as a key, tables show the thread's name |
/// | `time` | time since the consumer was attached |
/// | `latency` | time from the entry of the call to its exit; at exits |
/// | `caller`, `stack` | as a key of an aggregation alone: the function that called, all that led there |
/// | `7`, `0xff`, `1.5`, `'c'`, `"text"`, `true` | constants |
/// | `5ms`, `64K` | times in nanoseconds (`ns us ms s m h`), sizes in bytes (`B K M G`, powers of 1024) |
/// | `==` `!=` `<` `<=` `>` `>=` | comparisons; integers compare as numbers, whatever their signs and widths |
/// | `~` `!~` | whether a text matches a pattern as a whole: `*` is any text, `?` one character |
/// | `+ - * / %` | arithmetic with 128 bits, or with floating-point numbers |
/// | `&&` `\|\|` `!` `( )` | as in Rust |
/// | `first 100` | the first 100 hits that get here, of all threads |
/// | `1 in 1000` | on each thread, each thousandth of the hits that get here |
///
/// `&&` and `||` leave out their right side as in Rust, so `bytes > 1024 && first 100` are the
/// first hundred of the large ones. A field with the name `thread` comes before the thread. An
/// integer beside a floating-point number is rounded to one. NaN fulfils `!=` only. Strings of C
/// are read up to their end.
///
/// Without a result, as after a division by zero, the hit is left out and counted: a note in the
/// report says how many. Comparisons read 4,096 bytes of a text at most.
///
/// ```
/// use probe_runtime::selector::Predicate;
///
/// let large: Predicate = "bytes>64K && (peer ~ \"10.*\")".parse()?;
/// assert_eq!(large.to_string(), "bytes > 65536 && peer ~ \"10.*\"");
/// assert!("bytes >".parse::<Predicate>().is_err());
/// # Ok::<(), probe_runtime::spec::ParseError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Predicate {
    text: Box<str>,
    node: Node,
}

impl Predicate {
    /// Returns the text that it was parsed from.
    #[doc(hidden)]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the tree.
    #[doc(hidden)]
    pub fn node(&self) -> &Node {
        &self.node
    }
}

impl FromStr for Predicate {
    type Err = ParseError;

    /// # Errors
    /// A mistake in the text.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let mut parser = Parser::new(text, 0)?;
        let node = parser.expression()?;
        parser.finish()?;
        Ok(Self { text: text.into(), node })
    }
}

impl fmt::Display for Predicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.node.fmt(f)
    }
}

#[cfg(test)]
mod tests;
