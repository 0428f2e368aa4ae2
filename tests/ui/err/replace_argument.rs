use probe_runtime::probe;

#[probe(replace = true)]
fn with_a_value() {}

#[probe(replace(function))]
fn with_another_word() {}

#[probe(replace, replace)]
fn twice() {}

fn main() {
    with_a_value();
    with_another_word();
    twice();
}
