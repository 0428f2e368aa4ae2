//! `name = "…"`: other characters, segments, and the same name twice.

use probe_runtime::probe;

#[probe(name = "net::handle.request-1")]
fn f() -> u32 {
    1
}

#[probe(name = r"net::handle.request-1",)]
fn g() -> u32 {
    probe!(r#"größe"#);
    2
}

#[probe]
fn r#match() -> u32 {
    let r#type = 3;
    probe!("raw", r#type);
    r#type
}

fn main() {
    assert_eq!((f(), g(), r#match()), (1, 2, 3));
}
