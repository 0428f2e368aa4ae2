use probe_runtime::probe;

struct Cart(u32);

impl PartialEq for Cart {
    #[probe(replace)]
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

fn main() {
    assert!(Cart(1) == Cart(1));
}
