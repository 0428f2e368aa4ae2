use probe_runtime::probe;

struct S {
    len: u32,
}

impl S {
    #[probe]
    fn f(&self) {
        probe!("member", self.len);
        probe!("receiver", ?self);
        probe!("text", "text");
        probe!("colon", len: self.len);
        probe!("mark", ?len = self.len);
        probe!("no-value", len =);
        probe!("no-comma" self.len);
        probe!("no-comma", a = 1 b = 2);
    }
}

fn main() {
    S { len: 1 }.f();
}
