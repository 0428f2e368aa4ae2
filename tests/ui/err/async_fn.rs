use probe_runtime::probe;

#[probe]
async fn f(n: u32) -> u32 {
    probe!("no-second-error", n);
    n
}

fn main() {
    drop(f(1));
}
