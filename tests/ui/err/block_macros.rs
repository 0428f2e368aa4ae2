//! Filters of a `mod` can't reach into a block that a macro changes first.

use probe_runtime::probe;

#[probe(except("put"))]
mod store {
    #[async_trait::async_trait]
    pub trait Store {
        async fn put(&self, key: u64);
    }

    pub fn put() {}
}

fn main() {
    store::put();
}
