//! Without the attribute, `probe!` is no macro, but `point!` is. The message is rustc's own.

use probe_runtime::probe;

fn outside() {
    probe!("outside");
}

fn main() {
    outside();
}
