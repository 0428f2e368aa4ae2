//! What hits take, told from the function's own calls.
//!
//! No clock says it: most of a hit lies outside of what could read one, and what it takes differs. C code's hits keep vector registers; of
//! others a processor does a part beside the function's own work. So a function whose hits take much of the time is watched in
//! two ways in turns, with entries and exits, and with entries alone (see [`Mode`](super::mode::Mode)); and others are armed at one time and not
//! at the next. The more hits there are to a call, the later the next call comes: by how much, that is what a hit takes.
//!
//! A processor does a part of a hit beside the function's own work: one hit in a call of 60 cycles may add 10 to it, and the second 40. On the
//! machines that this was tried on, the two add up like the sides of a right angle: *period² = own² + (hits · cost)²*. Where calls are much longer than
//! hits, that says less than a sum would, but little is to be corrected there.
//!
//! Each window gives a point: hits for each call, time for each call. What is kept are the slopes, of their squares, between a window and the one before it, so
//! that a program that changes its ways spoils only those around the change; of these, the median counts. Where calls differ from window to
//! window by more than hits take, slopes are of either sign, and say nothing: three of four have to say that hits take time.

/// Slopes that are kept, and how many make a median that can be relied on.
const KEPT: usize = 31;
const ENOUGH: usize = 8;
/// Points further apart than that, in hits a call and as a part of the larger of the two, make a slope.
const APART: f64 = 0.25;

/// What a window says: of each call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    /// Hits, of whatever function.
    pub(super) hits: f64,
    /// Until the next call, in ticks.
    pub(super) period: f64,
}

/// What is known of the hits around one function's calls.
#[derive(Clone, Default, Debug)]
pub(super) struct Calibration {
    last: Option<Point>,
    /// Squares of what a hit takes.
    slopes: Vec<f64>,
    /// The oldest of them, where all are kept.
    next: usize,
    hit: Option<f64>,
}

impl Calibration {
    pub(super) fn add(&mut self, point: Point) {
        let Some(last) = self.last.replace(point) else { return };
        let hits = point.hits - last.hits;
        if hits.abs() <= APART * point.hits.max(last.hits) {
            return;
        }
        let square = |it: f64| it * it;
        let slope = (square(point.period) - square(last.period)) / (square(point.hits) - square(last.hits));
        if self.slopes.len() < KEPT {
            self.slopes.push(slope);
        } else {
            self.slopes[self.next] = slope;
            self.next = (self.next + 1) % KEPT;
        }
        if self.slopes.len() >= ENOUGH {
            let positive = self.slopes.iter().filter(|slope| **slope > 0.0).count();
            let is_clear = 4 * positive >= 3 * self.slopes.len();
            self.hit = is_clear.then(|| median(self.slopes.clone()).sqrt());
        }
    }

    /// What a hit takes, in ticks; `None` until enough is known.
    pub(super) fn hit(&self) -> Option<f64> {
        self.hit
    }
}

/// What remains of the time that work and hits take together, without hits that take so long by themselves.
pub(super) fn without(both: f64, hits: f64) -> f64 {
    (both * both - hits * hits).max(0.0).sqrt()
}

/// The part of hits that take so long by themselves that is felt, where work and hits take so long together.
pub(super) fn felt(both: f64, hits: f64) -> f64 {
    if hits > 0.0 { ((both - without(both, hits)) / hits).clamp(0.0, 1.0) } else { 1.0 }
}

/// The middle, or the mean of the two in the middle, of at least one.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    if values.len() % 2 == 1 { values[half] } else { f64::midpoint(values[half - 1], values[half]) }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::float_cmp, reason = "numbers that are exact")]

    use super::*;

    fn calibrated(points: impl IntoIterator<Item = (f64, f64)>) -> Option<f64> {
        let mut calibration = Calibration::default();
        points.into_iter().for_each(|(hits, period)| calibration.add(Point { hits, period }));
        calibration.hit()
    }

    /// Windows in turns, of calls that take 40 ticks by themselves, or so many, with hits of so many.
    fn windows(own: f64, hit: f64) -> impl Iterator<Item = (f64, f64)> + Clone {
        [2.0, 1.0].map(|hits| (hits, own.hypot(hits * hit))).into_iter().cycle()
    }

    fn is_near(found: Option<f64>, expected: f64) -> bool {
        found.is_some_and(|found| (found - expected).abs() < 1e-9)
    }

    #[test]
    fn the_slope_is_a_hit() {
        assert_eq!(calibrated(windows(40.0, 30.0).take(8)), None, "seven slopes");
        assert!(is_near(calibrated(windows(40.0, 30.0).take(9)), 30.0));
        assert_eq!(calibrated([(2.0, 74.0); 50]), None, "all alike say nothing");
        assert_eq!(without(50.0, 30.0), 40.0);
        assert_eq!(without(30.0, 50.0), 0.0);
    }

    #[test]
    fn a_change_spoils_little() {
        let (slow, fast) = (windows(1000.0, 30.0).take(8), windows(40.0, 30.0).take(8));
        assert!(is_near(calibrated(fast.clone().chain(slow).chain(fast)), 30.0));
    }

    #[test]
    fn the_last_ones_count() {
        assert!(is_near(calibrated(windows(10.0, 5.0).take(100).chain(windows(10.0, 9.0).take(100))), 9.0));
    }

    #[test]
    fn hits_that_take_nothing_say_nothing() {
        assert_eq!(calibrated([(2.0, 50.0), (1.0, 60.0)].into_iter().cycle().take(20)), None);
        let noise = [(2.0, 50.0), (1.0, 48.0), (2.0, 47.0), (1.0, 49.0)];
        assert_eq!(calibrated(noise.into_iter().cycle().take(50)), None);
    }

    #[test]
    fn what_is_felt() {
        assert_eq!(felt(50.0, 30.0), 1.0 / 3.0);
        assert_eq!((felt(50.0, 50.0), felt(50.0, 100.0)), (1.0, 0.5));
        assert_eq!(felt(0.0, 5.0), 0.0, "no more than there is");
        assert_eq!(felt(50.0, 0.0), 1.0);
    }
}
