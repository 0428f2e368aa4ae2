use probe_runtime::probe;

#[probe]
gen fn f() -> u32 {
    yield 1;
}

fn main() {}
