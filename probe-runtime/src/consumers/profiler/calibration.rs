//! What hits take, told from the function's own calls.
//!
//! No clock says it: most of a hit lies outside of what could read one, and what it takes differs. C code's hits keep vector registers; of
//! others a processor does a part beside the function's own work. So a function whose hits take much of the time is watched in
//! two ways in turns, with entries and exits, and with entries alone (see [`Mode`](super::sampler::Mode)); and others are armed at one time and not
//! at the next. The more hits there are to a call, the later the next call comes: by how much, that is what a hit takes.
//!
//! Each window gives a point: hits for each call, time for each call. What is kept are the slopes between a window and the one before it, so that a
//! program that changes its ways spoils only those around the change; of these, the median counts.

/// Slopes that are kept, and how many make a median that can be relied on.
const KEPT: usize = 31;
const ENOUGH: usize = 4;
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
        let slope = (point.period - last.period) / hits;
        if self.slopes.len() < KEPT {
            self.slopes.push(slope);
        } else {
            self.slopes[self.next] = slope;
            self.next = (self.next + 1) % KEPT;
        }
        if self.slopes.len() >= ENOUGH {
            self.hit = Some(median(self.slopes.clone()).max(0.0));
        }
    }

    /// What a hit takes, in ticks; `None` until enough is known.
    pub(super) fn hit(&self) -> Option<f64> {
        self.hit
    }
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

    #[test]
    fn the_slope_is_a_hit() {
        // 50 ticks of its own, 12 a hit.
        let points = [(2.0, 74.0), (1.0, 62.0)];
        assert_eq!(calibrated(points.into_iter().cycle().take(4)), None, "three slopes");
        assert_eq!(calibrated(points.into_iter().cycle().take(5)), Some(12.0));
        assert_eq!(calibrated([(2.0, 74.0); 50]), None, "all alike say nothing");
    }

    #[test]
    fn a_change_spoils_little() {
        let slow = [(2.0, 1024.0), (1.0, 1012.0)].into_iter().cycle().take(8);
        let fast = [(2.0, 74.0), (1.0, 62.0)].into_iter().cycle().take(8);
        assert_eq!(calibrated(fast.clone().chain(slow).chain(fast)), Some(12.0));
    }

    #[test]
    fn the_last_ones_count() {
        let of = |hit: f64| [(2.0, 10.0 + 2.0 * hit), (1.0, 10.0 + hit)].into_iter().cycle();
        assert_eq!(calibrated(of(5.0).take(100).chain(of(9.0).take(100))), Some(9.0));
    }

    #[test]
    fn nothing_takes_less_than_nothing() {
        assert_eq!(calibrated([(2.0, 50.0), (1.0, 60.0)].into_iter().cycle().take(20)), Some(0.0));
    }
}
