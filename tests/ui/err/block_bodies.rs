//! An error in a body points into the body.

use probe_runtime::probe;

struct S(u32);

#[probe(group = "net")]
impl S {
    fn a(&self) -> u32 {
        probe!("x", y = self.1);
        let z: u8 = self.0;
        "text"
    }

    fn b(&self) -> u32 {
        self.1
    }
}

fn main() {
    S(1).a();
    S(1).b();
}
