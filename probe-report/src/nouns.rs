//! Numbers of things in sentences.

/// Returns a number of things: `1 call`, `2 calls`.
pub fn count(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Returns the same with a verb: `1 call was`, `2 calls were`.
pub fn was(number: u64, noun: &str) -> String {
    format!("{} {}", count(number, noun), if number == 1 { "was" } else { "were" })
}
