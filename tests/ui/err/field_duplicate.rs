use probe_runtime::probe;

#[probe]
fn f(len: usize) {
    probe!("x", len, len = len + 1, ?len);
}

fn main() {
    f(1);
}
