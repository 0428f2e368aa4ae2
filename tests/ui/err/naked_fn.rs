use probe_runtime::probe;

#[probe]
#[unsafe(naked)]
extern "C" fn f() {
    std::arch::naked_asm!("ret")
}

fn main() {
    f();
}
