//! 2,000 functions: the number of calls of the one of rank `r` is proportional to `1/r`, in a
//! random order.

use std::hint::black_box;

use probe_runtime::probe;

use super::made::next;

type Function = fn(u64) -> u64;

macro_rules! ten_functions {
    ($($name:ident)*) => {
        use super::{Function, probe};
        $(
            #[probe]
            #[inline(never)]
            fn $name(x: u64) -> u64 {
                (0..1 + x % 16).fold(x, |x, step| (x ^ x >> 29).wrapping_mul(0x5bd1_e995 + step))
            }
        )*
        pub fn add_to(all: &mut Vec<Function>) {
            all.extend([$($name as Function),*]);
        }
    };
}

macro_rules! ten_modules {
    ($inner:tt: $($name:ident)*) => {
        use super::{Function, probe};
        $(mod $name { ten_modules!(@ $inner); })*
        pub fn add_to(all: &mut Vec<Function>) {
            $($name::add_to(all);)*
        }
    };
    (@ functions) => { ten_functions!(f0 f1 f2 f3 f4 f5 f6 f7 f8 f9); };
    (@ modules) => { ten_modules!(functions: m0 m1 m2 m3 m4 m5 m6 m7 m8 m9); };
}

/// Twenty modules of ten modules of ten functions. A debug build has one of the twenty, since its
/// figures mean nothing.
mod all {
    #[cfg(not(debug_assertions))]
    ten_modules!(modules: n0 n1 n2 n3 n4 n5 n6 n7 n8 n9 n10 n11 n12 n13 n14 n15 n16 n17 n18 n19);
    #[cfg(debug_assertions)]
    ten_modules!(modules: n0);
}

/// Makes `30,000 * work` calls in all.
pub fn run(work: u64) {
    let mut functions = Vec::new();
    all::add_to(&mut functions);
    let mut state = 0x9e37_79b9_7f4a_7c15;
    for last in (1..functions.len()).rev() {
        state = next(state);
        functions.swap(last, usize::try_from(state % (last as u64 + 1)).expect("an index"));
    }
    let shares = (1..=functions.len()).scan(0.0, |sum, rank| {
        *sum += 1.0 / rank as f64;
        Some(*sum)
    });
    let shares: Vec<f64> = shares.collect();
    let all = shares[shares.len() - 1];
    for _ in 0..30_000 * work {
        state = next(state);
        let part = (state >> 11) as f64 / (1_u64 << 53) as f64 * all;
        let rank = shares.partition_point(|share| *share < part);
        black_box(functions[rank](state));
    }
}
