//! Locals, arguments and temporaries are dropped in the order in which they are without a probe.

use std::cell::RefCell;

use probe_runtime::probe;

struct Noisy<'a>(&'a RefCell<Vec<u32>>, u32);

impl Drop for Noisy<'_> {
    #[probe]
    fn drop(&mut self) {
        self.0.borrow_mut().push(self.1);
    }
}

fn plain(log: &RefCell<Vec<u32>>, _argument: Noisy<'_>, _: Noisy<'_>) -> u32 {
    let _first = Noisy(log, 1);
    let _second = Noisy(log, 2);
    Noisy(log, 3).1
}

#[probe]
fn probed(log: &RefCell<Vec<u32>>, _argument: Noisy<'_>, _: Noisy<'_>) -> u32 {
    let _first = Noisy(log, 1);
    let _second = Noisy(log, 2);
    Noisy(log, 3).1
}

fn main() {
    let [a, b] = [plain, probed].map(|f| {
        let log = RefCell::default();
        f(&log, Noisy(&log, 4), Noisy(&log, 5));
        log.into_inner()
    });
    assert_eq!(a, b);
}
