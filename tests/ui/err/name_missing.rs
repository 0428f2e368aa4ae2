use probe_runtime::probe;

#[probe]
fn f(len: usize) {
    probe!();
    probe!(len);
}

fn main() {
    f(1);
    probe_runtime::point!();
}
