//! Without the attribute, `probe!` is no macro: `point!` is. The message is rustc's own, which no crate can change.

use probe_runtime::probe;

fn outside() {
    probe!("outside");
}

fn main() {
    outside();
}
