//! Numbers that a seed repeats.

/// xorshift64*.
#[derive(Clone)]
pub struct Random(u64);

impl Random {
    /// The sequence of a number that tells it from the others of the same seed.
    pub fn new(seed: u64, number: usize) -> Self {
        let number = u64::try_from(number).expect("64 bits");
        Self((seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15)) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number less than `end`.
    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() >> 8).expect("64 bits") % end
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for end in (2..=items.len()).rev() {
            items.swap(end - 1, self.below(end));
        }
    }
}
