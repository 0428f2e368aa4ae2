//! The pauses between tries: each is twice as long as the one before, up to a limit. Success ends
//! them. Pure.

/// The most windows between two tries.
const MOST: u32 = 64;

/// Tries of one thing, which a window counts.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Patience {
    pause: u32,
    left: u32,
}

impl Patience {
    /// Counts a window. Returns whether the next try is due.
    pub fn is_due(&mut self) -> bool {
        let is_due = self.left == 0;
        self.left = self.left.saturating_sub(1);
        is_due
    }

    /// Notes a failure.
    pub fn fail(&mut self) {
        self.pause = (2 * self.pause).clamp(1, MOST);
        self.left = self.pause - 1;
    }

    /// Notes a success.
    pub fn succeed(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_until_success() {
        let mut patience = Patience::default();
        let mut windows = Vec::new();
        for window in 0..400 {
            if patience.is_due() {
                windows.push(window);
                patience.fail();
            }
        }
        assert_eq!(windows, [0, 1, 3, 7, 15, 31, 63, 127, 191, 255, 319, 383]);
        patience.succeed();
        assert!(patience.is_due() && patience.is_due());
    }
}
