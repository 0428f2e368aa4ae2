//! Sizes of memory as people write them: `4096`, `64K`, `16M`. Pure.

/// Units, and the power of two that each stands for.
const UNITS: [(&str, u32); 6] = [("KiB", 10), ("MiB", 20), ("GiB", 30), ("K", 10), ("M", 20), ("G", 30)];

/// Parses a number of bytes and its unit.
///
/// # Errors
/// A description of the mistake and of the correct form.
pub fn size(text: &str) -> Result<usize, String> {
    let text = text.trim();
    let unit = UNITS.iter().find_map(|(unit, power)| Some((text.strip_suffix(unit)?, *power)));
    let (number, power) = unit.unwrap_or((text, 0));
    let bytes = number.trim().parse::<usize>().ok().and_then(|number| number.checked_mul(1 << power));
    bytes.ok_or_else(|| format!("`{text}` is not a size; write bytes, or `64K`, `16M`, `1G`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_and_a_unit() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("64K", 65_536),
            ("64 KiB", 65_536),
            ("16M", 16 << 20),
            ("1G", 1 << 30),
            ("2GiB", 2 << 30),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in
            ["", "K", "-1", "1.5M", "64k", "64B", "ten", "99999999999999999999", "18446744073709551615G"]
        {
            assert!(size(text).unwrap_err().ends_with("write bytes, or `64K`, `16M`, `1G`"), "{text}");
        }
    }
}
