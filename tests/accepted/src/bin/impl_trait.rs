//! `impl Trait` as an argument and as a result.

use probe_runtime::probe;

#[probe]
fn collected(items: impl IntoIterator<Item = u32>) -> Vec<u32> {
    items.into_iter().collect()
}

#[probe]
fn counter(end: u32) -> impl Iterator<Item = u32> {
    (0..end).map(|n| {
        probe!("counted", n);
        n * 2
    })
}

#[probe]
fn borrowed<'a>(items: &'a [u32]) -> impl Iterator<Item = &'a u32> + use<'a> {
    items.iter().rev()
}

#[probe]
fn closure(n: u32) -> impl Fn(u32) -> u32 {
    move |m| n + m
}

#[probe]
fn erased<'a>(text: &'a str) -> Box<dyn Fn() -> &'a str + 'a> {
    Box::new(move || text)
}

fn main() {
    assert_eq!(collected(counter(3)), [0, 2, 4]);
    assert_eq!(borrowed(&[1, 2]).copied().collect::<Vec<_>>(), [2, 1]);
    assert_eq!(closure(1)(2), 3);
    assert_eq!(erased("x")(), "x");
}
