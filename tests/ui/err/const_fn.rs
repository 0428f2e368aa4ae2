use probe_runtime::probe;

#[probe]
const fn f(n: u32) -> u32 {
    probe!("no-second-error", n);
    n
}

const N: u32 = f(1);

fn main() {
    assert_eq!(N, 1);
}
