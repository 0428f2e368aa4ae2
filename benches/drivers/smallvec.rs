//! Vectors that stay inline and vectors that spill: pushes, insertions, drains, comparisons.

use std::hint::black_box;

use smallvec::SmallVec;

pub fn work(times: u64) -> u64 {
    let mut digest = 0_u64;
    for round in 0..times {
        let mut small: SmallVec<[u64; 8]> = SmallVec::new();
        for at in 0..12 {
            small.push(black_box(round.wrapping_mul(at + 7)));
        }
        small.insert(3, round);
        small.extend((0..4).map(|it| it ^ round));
        small.extend_from_slice(&[1, 2, round]);
        digest ^= small.remove(5);
        digest = digest.wrapping_add(small.drain(2..6).sum::<u64>());
        small.retain(|it| *it % 3 != 0);
        small.dedup();
        let other: SmallVec<[u64; 8]> = small.iter().copied().collect();
        digest += u64::from(black_box(&other) == black_box(&small));
        while let Some(last) = small.pop() {
            digest = digest.rotate_left(5) ^ last;
        }
        digest ^= other.into_iter().fold(0, u64::wrapping_add);
    }
    digest
}
