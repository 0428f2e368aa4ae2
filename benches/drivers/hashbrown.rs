//! A map with insertions, lookups, changes and removals; a set.

use std::hash::{BuildHasherDefault, Hasher};
use std::hint::black_box;

use hashbrown::{HashMap, HashSet};

/// A hasher that is the same in every process.
#[derive(Default)]
struct Multiply(u64);

impl Hasher for Multiply {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|it| self.write_u64(u64::from(*it)));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }
}

type Hashing = BuildHasherDefault<Multiply>;

pub fn work(times: u64) -> u64 {
    let mut digest = 0_u64;
    for round in 0..times {
        let mut map: HashMap<u64, u64, Hashing> = HashMap::default();
        for key in 0..40 {
            map.insert(black_box(key * 3 + round), key);
        }
        for key in 0..80 {
            digest = digest.wrapping_add(map.get(&black_box(key + round)).copied().unwrap_or(1));
        }
        for key in 0..20 {
            *map.entry(black_box(key * 2 + round)).or_insert(0) += key;
        }
        for key in 0..10 {
            digest ^= map.remove(&black_box(key * 3 + round)).unwrap_or(7);
        }
        map.retain(|_, value| *value % 3 != 0);
        digest = map.iter().fold(digest, |sum, (key, value)| sum.wrapping_add(key * value));
        let set: HashSet<u64, Hashing> = map.into_values().collect();
        digest += set.len() as u64 + u64::from(set.contains(&black_box(4)));
    }
    digest
}
