use probe_runtime::probe;

struct Words<'t>(&'t str);

impl Words<'_> {
    #[probe(replace)]
    fn len(&self) -> usize {
        self.0.len()
    }
}

struct Of<T>(T);

impl<T: Clone> Of<T> {
    #[probe(replace)]
    fn get(&self) -> T {
        self.0.clone()
    }
}

fn main() {
    Words("").len();
    Of(1).get();
}
