//! Adaptors of all kinds over short ranges.

use std::hint::black_box;

use itertools::{Itertools, iproduct};

pub fn work(times: u64) -> u64 {
    let mut digest = 0_u64;
    for round in 0..times {
        let numbers: Vec<u64> = (0..16).map(|it| black_box(it * 7 + round) % 13).collect();
        let mut add = |it: u64| digest = digest.rotate_left(3) ^ it;
        numbers.iter().tuple_windows().for_each(|(a, b, c)| add(a * b + c));
        numbers.iter().copied().dedup().interleave(0..4).for_each(&mut add);
        numbers.iter().copied().unique().for_each(&mut add);
        numbers.iter().copied().sorted().merge(3..9).for_each(&mut add);
        for (is_odd, group) in &numbers.iter().chunk_by(|it| **it % 2) {
            add(is_odd + group.sum::<u64>());
        }
        for chunk in &numbers.iter().chunks(5) {
            add(chunk.copied().max().unwrap_or(0));
        }
        numbers[..6].iter().combinations(2).for_each(|it| add(it[0] * it[1]));
        numbers[..4].iter().permutations(2).for_each(|it| add(it[0] + it[1]));
        iproduct!(0..4_u64, &numbers[..4]).for_each(|(a, b)| add(a + b));
        numbers.iter().zip_longest(&numbers[3..]).for_each(|it| add(it.reduce(|a, b| a.min(b)) + 1));
        numbers.iter().positions(|it| it % 5 == 0).for_each(|it| add(it as u64));
        numbers.iter().coalesce(|a, b| if a == b { Ok(a) } else { Err((a, b)) }).for_each(|it| add(*it));
        numbers.iter().take_while_inclusive(|it| **it != 4).for_each(|it| add(*it));
        add(numbers.iter().minmax().into_option().map_or(0, |(a, b)| a * b));
        add(numbers.chunks(4).map(|it| it.iter()).kmerge().fold(0, |sum, it| sum * 3 + it));
        add(numbers.iter().join(",").len() as u64);
    }
    digest
}
