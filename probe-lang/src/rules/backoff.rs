//! Pauses between the tries of one thing. Pure.

/// The most windows between two tries.
const MOST_PAUSE: u32 = 64;

/// The windows between two tries of one thing: each pause is twice as long as the one before, up to
/// a limit, and success ends them.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Backoff {
    pause: u32,
    left: u32,
}

impl Backoff {
    /// Counts a window. Returns whether the next try is due.
    pub fn is_due(&mut self) -> bool {
        let is_due = self.left == 0;
        self.left = self.left.saturating_sub(1);
        is_due
    }

    /// Notes whether a try has succeeded.
    pub fn note(&mut self, has_succeeded: bool) {
        self.pause = if has_succeeded { 0 } else { (2 * self.pause).clamp(1, MOST_PAUSE) };
        self.left = self.pause.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_until_success() {
        let mut backoff = Backoff::default();
        let mut windows = Vec::new();
        for window in 0..400 {
            if backoff.is_due() {
                windows.push(window);
                backoff.note(false);
            }
        }
        assert_eq!(windows, [0, 1, 3, 7, 15, 31, 63, 127, 191, 255, 319, 383]);
        backoff.note(true);
        assert!(backoff.is_due() && backoff.is_due());
    }
}
