use probe_runtime::probe;

#[probe(replace)]
fn only_the_results<'a>(n: u32) -> &'a str {
    if n == 0 { "" } else { "x" }
}

struct Words<'t>(&'t str);

impl<'t> Words<'t> {
    #[probe(replace)]
    fn of_the_impl(&self) -> &'t str {
        self.0
    }

    #[probe(replace(method))]
    fn in_an_argument(text: &'t str) -> usize {
        text.len()
    }
}

fn main() {
    only_the_results(1);
    Words("").of_the_impl();
    Words::in_an_argument("");
}
