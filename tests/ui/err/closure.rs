use probe_runtime::probe;

fn main() {
    let f = #[probe]
    |n: u32| n + 1;
    f(1);
}
