//! Calls each function, as often as it is told to.

use std::env;
use std::hint::black_box;

use usdt::{net, sdt};

fn main() {
    let rounds = env::args().nth(1).map_or(1, |rounds| rounds.parse().expect("a number"));
    // A tracer reads nothing of a page that the program has not touched yet.
    let greeting = "hello";
    black_box(black_box(greeting).chars().count());
    for round in 0..rounds {
        black_box(net::leaf(round, -5, greeting, 7));
        black_box(net::leaf_plain(round, -5, greeting, 7));
        black_box(net::given(1, "bob", -2));
        black_box(net::given_plain(1, "bob", -2));
        black_box(net::returned(round, 3));
        black_box(net::returned_plain(round, 3));
        black_box(net::wide(i64::MIN, usize::MAX));
        black_box(net::narrow(-7, -300, 'x', true));
        black_box(net::references(&[1, 2, 3], &mut 4, &raw const round));
        net::filled(black_box(&mut [0; 2]), black_box(String::from("abc").as_mut_str()));
        sdt::of_sdt_h(round);
        black_box(net::looped(&[round, 2]));
        black_box(net::looped_plain(&[round, 2]));
        black_box(net::inlined_twice(black_box(1), black_box(2)));
        let mut store = net::Store { total: round };
        store.put(2);
        black_box(store.sum());
    }
    black_box(net::polled());
    black_box(net::at_once(1));
    black_box(net::at_once_plain(1));
}
