//! The never type and the unit type, empty bodies.

use probe_runtime::probe;

#[probe]
fn diverges(code: i32) -> ! {
    probe!("leaving", code);
    std::process::exit(code)
}

#[probe]
fn endless() -> ! {
    loop {
        diverges(0);
    }
}

#[probe]
fn empty() {}

#[probe]
fn unit() -> () {
    ()
}

#[probe]
fn statement(n: &mut u32) {
    *n += 1;
}

fn main() {
    empty();
    unit();
    let mut n = 0;
    statement(&mut n);
    assert_eq!(n, 1);
    endless()
}
