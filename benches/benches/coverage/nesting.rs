//! Nested calls: with two very different lengths, and mutually recursive to varying depths.

use std::hint::black_box;

use probe_runtime::probe;

use super::made::{compute, next};

pub mod lengths {
    use super::{black_box, compute, next, probe};

    /// Takes 0.2 µs; one call in 512 takes 300 µs, and these take most of the time.
    #[probe]
    fn fetch(key: u64) -> u64 {
        compute(if key.is_multiple_of(512) { 150_000 } else { 100 })
    }

    #[probe]
    fn lookup(key: u64) -> u64 {
        (0..3).fold(key, |key, _| {
            black_box(fetch(key));
            next(key)
        })
    }

    #[probe]
    fn decode(length: u64) -> u64 {
        compute(10 + length % 64)
    }

    #[probe]
    fn query(mut key: u64) -> u64 {
        for _ in 0..4 {
            black_box(decode(key));
            key = lookup(key);
        }
        key
    }

    #[probe]
    fn serve(key: u64) -> u64 {
        compute(50);
        query(query(key))
    }

    /// Calls five levels, each of which has the two lengths of the innermost one.
    #[probe]
    pub fn run(work: u64) {
        (0..10 * work).fold(0x9e37_79b9_7f4a_7c15, |key, _| black_box(serve(key)));
    }
}

pub mod descent {
    use super::{black_box, compute, next, probe};

    /// The rest of an expression, as pseudo-random numbers, and its remaining depth.
    struct Expression {
        state: u64,
        depth: u64,
    }

    impl Expression {
        /// Returns whether the grammar continues in this way, one of `ways`.
        fn is_next(&mut self, ways: u64) -> bool {
            self.state = next(self.state);
            self.depth > 0 && (self.state >> 32).is_multiple_of(ways)
        }
    }

    #[probe]
    fn sum(of: &mut Expression) -> u64 {
        let mut value = product(of);
        while of.is_next(3) {
            value = value.wrapping_add(product(of));
        }
        value
    }

    #[probe]
    fn product(of: &mut Expression) -> u64 {
        let mut value = factor(of);
        while of.is_next(4) {
            value = value.wrapping_mul(factor(of));
        }
        value
    }

    #[probe]
    fn factor(of: &mut Expression) -> u64 {
        if of.is_next(2) { bracket(of) } else { literal(of.state) }
    }

    #[probe]
    fn bracket(of: &mut Expression) -> u64 {
        of.depth -= 1;
        let value = black_box(sum(of));
        of.depth += 1;
        value
    }

    #[probe]
    fn literal(digits: u64) -> u64 {
        compute(digits % 16)
    }

    /// Parses expressions of one to some thousand numbers, at most 4 to 256 brackets deep.
    #[probe]
    pub fn run(work: u64) {
        let mut state = 0x9e37_79b9_7f4a_7c15;
        for number in 0..100 * work {
            let mut expression = Expression { state, depth: 4 << (number % 7) };
            black_box(sum(&mut expression));
            state = next(expression.state);
        }
    }
}
