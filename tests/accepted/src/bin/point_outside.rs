//! A point in code without the attribute: by its path, imported under another name, in a macro.

use probe_runtime::point as mark;

fn by_path(n: u32) -> u32 {
    probe_runtime::point!("by-path", n);
    n
}

mod renamed {
    use probe_runtime::point as probe;

    pub fn f(n: u32) -> u32 {
        probe!("renamed", n);
        n
    }
}

mod both {
    use probe_runtime::{point, probe};

    #[probe]
    pub fn f(n: u32) -> u32 {
        point!("named", n);
        probe!("rewritten", n);
        n
    }
}

macro_rules! traced {
    ($value:expr) => {{
        let value = $value;
        mark!("traced", value);
        value
    }};
}

static TABLE: fn(u32) -> u32 = |n| {
    mark!("in-a-closure", n);
    n
};

fn main() {
    assert_eq!(by_path(1) + renamed::f(2) + both::f(3) + traced!(4) + TABLE(5), 15);
}
