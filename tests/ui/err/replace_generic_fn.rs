use probe_runtime::probe;

#[probe(replace)]
fn largest<T: Ord, const N: usize>(values: [T; N]) -> Option<T> {
    values.into_iter().max()
}

fn main() {
    largest([1, 2]);
}
