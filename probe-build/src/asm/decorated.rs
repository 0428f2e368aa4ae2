//! clang names a `vectorcall` function `f@@16`, after the size of its arguments, and prints that
//! name unquoted. No assembler, not even clang's, accepts it in an expression. In quotes, all of
//! them do.

use super::line::symbolic;
use std::borrow::Cow;

/// Returns the text with such names in quotes.
pub(crate) fn quoted(source: &str) -> Cow<'_, str> {
    if !source.contains("@@") {
        return Cow::Borrowed(source);
    }
    let is_plain = |line: &&str| !line.contains("@@") || line.contains('"') || line.contains(".symver");
    let mut text = String::with_capacity(source.len());
    for line in source.split_inclusive('\n') {
        if is_plain(&line) {
            text.push_str(line);
            continue;
        }
        let code = line.find('#').unwrap_or(line.len());
        let mut done = 0;
        for (at, _) in line[..code].match_indices("@@") {
            let before = line[done..at].rfind(|c| !symbolic(c)).map_or(done, |last| done + last + 1);
            let digits = line[at + 2..code].find(|c: char| !c.is_ascii_digit()).unwrap_or(code - at - 2);
            let end = at + 2 + digits;
            if before < at && digits > 0 && !line[end..].starts_with(symbolic) {
                text.extend([&line[done..before], "\"", &line[before..end], "\""]);
                done = end;
            }
        }
        text.push_str(&line[done..]);
    }
    Cow::Owned(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_their_bytes_are_quoted() {
        for (line, expected) in [
            ("f@@16: # @f\n", "\"f@@16\": # @f\n"),
            ("\t.size\tf@@16, .Lend-f@@16\n", "\t.size\t\"f@@16\", .Lend-\"f@@16\"\n"),
            ("\tcallq\tf@@8@PLT # f@@8\n", "\tcallq\t\"f@@8\"@PLT # f@@8\n"),
            ("\t.symver\tf, f@@2\n", "\t.symver\tf, f@@2\n"),
            ("f@@VERS_2", "f@@VERS_2"),
            ("\t.ascii \"f@@16\"", "\t.ascii \"f@@16\""),
        ] {
            assert_eq!(quoted(line), expected);
        }
    }
}
