use probe_runtime::probe;

#[probe(replace)]
fn shown(value: impl ToString, _more: &[Box<impl Clone>]) -> impl Iterator<Item = char> {
    value.to_string().chars().rev().collect::<Vec<_>>().into_iter()
}

fn main() {
    shown(1, &[Box::new(2)]);
}
