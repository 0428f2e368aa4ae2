//! Functions and items in a function, and `probe!` at any depth.

use probe_runtime::probe;

#[probe]
fn outer(n: u32) -> u32 {
    const STEP: u32 = 2;

    #[probe]
    fn inner(n: u32) -> u32 {
        probe!("inner", n);
        n + STEP
    }

    struct Local(u32);

    impl Local {
        #[probe]
        fn get(&self) -> u32 {
            self.0
        }
    }

    let closure = |m: u32| {
        probe!("closure", m);
        if m > 1 {
            [(); 1].iter().for_each(|()| probe!("deeper", m));
        }
        m
    };
    closure(inner(n)) + Local(1).get()
}

#[probe]
fn factorial(n: u64) -> u64 {
    probe!("step", n);
    if n == 0 { 1 } else { n * factorial(n - 1) }
}

fn main() {
    assert_eq!(outer(1), 4);
    assert_eq!(factorial(5), 120);
}
