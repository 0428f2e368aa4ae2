use probe_runtime::probe;

#[probe]
fn f(mut n: u32, text: &mut String) {
    probe!("assignment", unit = ?{ n = 1 });
    probe!("compound", n = { n += 1; n });
    probe!("borrow", text = ?std::mem::take(&mut *text));
    probe!("raw", text = ?&raw mut n);
}

fn main() {
    f(1, &mut String::new());
}
