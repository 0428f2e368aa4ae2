use probe_runtime::probe;

struct Cart(u32);

impl Cart {
    #[probe(replace)]
    fn new(n: u32) -> Self {
        Self(n)
    }
}

fn main() {
    Cart::new(1);
}
