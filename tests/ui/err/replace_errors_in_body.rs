use probe_runtime::probe;

#[probe(replace)]
fn price(item: &str, count: u32) -> u32 {
    let len: u32 = item.len();
    len * cuont
}

fn main() {
    price("", 1);
}
