use probe_runtime::probe;

trait T {
    #[probe]
    fn method(&self) -> u32;
}

impl T for () {
    fn method(&self) -> u32 {
        1
    }
}

unsafe extern "C" {
    #[probe]
    safe fn abs(n: i32) -> i32;
}

fn main() {
    assert_eq!(().method(), 1);
    assert_eq!(abs(-1), 1);
}
