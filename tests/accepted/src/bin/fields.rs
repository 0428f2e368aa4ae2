//! Every type and form of a field.

use std::sync::Arc;

use probe_runtime::probe;

#[derive(Debug)]
#[allow(dead_code)]
struct Thing {
    id: u64,
    name: String,
}

impl std::fmt::Display for Thing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}#{}", self.name, self.id)
    }
}

#[probe]
fn all(thing: &Thing, flag: bool, bytes: &[u8]) -> u64 {
    let (a, b, c, d, e) = (1u8, 2u16, 3u32, 4u64, 5usize);
    let (f, g, h, i, j) = (-1i8, -2i16, -3i32, -4i64, -5isize);
    let (k, l, m) = (1.5f32, 2.5f64, 'x');
    let (owned, shared) = (String::from("owned"), Arc::new(7));
    probe!("unsigned", a, b, c, d, e);
    probe!("signed", f, g, h, i, j);
    probe!("others", k, l, m, flag, text = "text", bytes);
    probe!("members", id = thing.id, name = thing.name.as_str(), len = owned.len());
    probe!("formatted", ?thing, %owned, other = ?Some(&thing.name), number = %d, ?shared,);
    probe!(
        "expressions",
        sum = a + 1,
        call = e.max(3),
        block = {
            let n = d * 2;
            n + 1
        },
        choice = if flag { 1 } else { 2 },
        generic = size_of::<(u8, u32)>(),
        closure = bytes.iter().map(|&byte| return u64::from(byte)).sum::<u64>(),
        text = format!("{a}-{b}", b = b).as_str(),
        inner = loop {
            break 3;
        },
        matched = ?(|| Some(bytes.first()? + 1))(),
    );
    probe!["brackets", a];
    probe! { "braces", a }
    let () = probe!("unit");
    // Not moved, not borrowed for longer than the probe.
    drop(owned);
    thing.id
}

fn main() {
    let thing = Thing { id: 3, name: "thing".into() };
    assert_eq!(all(&thing, true, b"ab"), 3);
}
