use probe_runtime::probe;

#[probe]
struct S;

#[probe]
impl S {
    #[probe]
    const N: u32 = 1;
}

#[probe]
mod m {
    pub fn f() {}
}

#[probe]
static X: u32 = 1;

fn main() {
    let _ = (S, S::N, X);
    m::f();
}
