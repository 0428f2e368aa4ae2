//! Every way out of a function: `return`, `?`, the end, a panic.

use probe_runtime::probe;

#[probe]
fn sign(n: i32) -> &'static str {
    if n < 0 {
        return "-";
    }
    match n {
        0 => return "0",
        _ => {}
    }
    "+"
}

#[probe]
fn parsed(text: &str) -> Result<u32, std::num::ParseIntError> {
    let n: u32 = text.parse()?;
    probe!("parsed", n);
    Ok(n + text.trim().parse::<u32>()?)
}

#[probe]
fn third(items: &[u32]) -> Option<u32> {
    let n = *items.get(2)?;
    Some(n)
}

#[probe]
fn panics() {
    panic!("on purpose");
}

fn main() {
    assert_eq!([-1, 0, 1].map(sign), ["-", "0", "+"]);
    assert_eq!(parsed("2"), Ok(4));
    assert!(parsed("x").is_err());
    assert_eq!(third(&[1, 2, 3]), Some(3));
    assert_eq!(third(&[]), None);
    std::panic::set_hook(Box::new(|_| {}));
    assert!(std::panic::catch_unwind(panics).is_err());
}
