use probe_runtime::probe;

#[probe]
fn f() {
    'outer: loop {
        probe!("break", n = break);
        probe!("labelled", n = loop { break 'outer });
        probe!("continue", n = { continue });
    }
}

fn main() {
    f();
}
