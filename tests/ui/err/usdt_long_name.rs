//! With `usdt`, a path and its kind have a greatest length.

use probe_runtime::probe;

#[probe(
    usdt,
    name = "a_name_of_seventy_letters_____________________________________________\
        a_name_of_seventy_letters_____________________________________________\
        a_name_of_seventy_letters_____________________________________________\
        a_name_of_seventy_letters_____________________________________________"
)]
fn long_name() {}

fn main() {
    long_name();
}
