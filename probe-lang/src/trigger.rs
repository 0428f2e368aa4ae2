//! How a trigger begins: `when latency(…) > 5ms: …`. Pure.

/// The first word of a trigger.
pub const WHEN: &str = "when";

/// Returns whether a text begins with a trigger, and not with a selector. A selector may name the
/// path `when`, too: then it goes on with `=`, a comma, or a condition such as `kind=`.
pub fn begins_trigger(text: &str) -> bool {
    let Some(rest) = text.trim_start().strip_prefix(WHEN) else { return false };
    let next = rest.trim_start();
    let goes_on = ["=", ",", "@", "kind=", "group="];
    next.len() < rest.len() && !next.is_empty() && !goes_on.iter().any(|it| next.starts_with(it))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_called_when_begins_no_trigger() {
        for text in ["when latency(a) > 5ms: snapshot", " when\tlatency", "when x"] {
            assert!(begins_trigger(text), "{text}");
        }
        for text in [
            "when=count", "when = count", "when, a=count", "when kind=entry=count", "when @a.rs=count",
            "when group=a|b=count", "when", "when ", "when::latency=count", "whenever latency", "a when",
        ] {
            assert!(!begins_trigger(text), "{text}");
        }
    }
}
