use probe_runtime::probe;

#[probe]
fn f(n: Option<u32>) -> Option<u32> {
    probe!("question", n = n?);
    probe!("return", n = n.unwrap_or_else(|| return 1), m = if n.is_none() { return None } else { 1 });
    probe!("in-a-macro", text = format!("{}", n?).as_str());
    n
}

fn main() {
    f(None);
}
