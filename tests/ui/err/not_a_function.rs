use probe_runtime::probe;

#[probe]
struct S;

impl S {
    #[probe]
    const N: u32 = 1;
}

#[probe]
static X: u32 = 1;

fn main() {
    let _ = (S, S::N, X);
}
