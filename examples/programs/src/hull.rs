//! Convex hulls by quickhull: first of batches of points, then of the corners that the threads have
//! found.

use std::sync::atomic::{AtomicU64, Ordering};

use probe_runtime::probe;

use crate::{Done, Program, on_threads, random, seed};

/// The program; a unit of work is one batch of [`BATCH`] points.
pub const PROGRAM: Program =
    Program { name: "hull", probes: "probe_programs::hull::**", unit: "batches", work: 500, run };

/// Number of points in a batch.
pub const BATCH: usize = 5_000;

/// A point of the plane, with whole coordinates of up to ±10⁶, so that all results are exact.
pub type Point = (i64, i64);

/// A hull, with the number of hulls computed for it and the sum of their corners.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Found {
    /// Its corners, counterclockwise from the leftmost.
    pub hull: Vec<Point>,
    hulls: u64,
    corners: u64,
}

#[probe(all)]
mod geometry {
    use super::{BATCH, Found, Point, random, seed};

    /// Returns random points in a disc.
    pub fn scatter(batch: u64) -> Vec<Point> {
        let mut state = seed(batch);
        let mut next = || (random(&mut state) % 2_000_001).cast_signed() - 1_000_000;
        let mut points = Vec::with_capacity(BATCH);
        while points.len() < BATCH {
            let (x, y) = (next(), next());
            if x * x + y * y <= 1_000_000_000_000 {
                points.push((x, y));
            }
        }
        points
    }

    /// Returns the hull of at least two different points.
    pub fn hull(points: &[Point]) -> Vec<Point> {
        let (left, right) = ends(points);
        let mut hull = vec![left];
        side(points, left, right, &mut hull);
        hull.push(right);
        side(points, right, left, &mut hull);
        hull
    }

    /// Returns the leftmost and the rightmost point.
    fn ends(points: &[Point]) -> (Point, Point) {
        let first = points[0];
        points.iter().fold((first, first), |(left, right), point| (left.min(*point), right.max(*point)))
    }

    /// Appends the corners between two corners, in their order.
    fn side(points: &[Point], from: Point, to: Point, hull: &mut Vec<Point>) {
        let (outside, farthest) = outside(points, from, to);
        if let Some(corner) = farthest {
            side(&outside, from, corner, hull);
            hull.push(corner);
            side(&outside, corner, to, hull);
        }
    }

    /// Returns the points to the right of a line, and the farthest of them. Of several, the
    /// leftmost is a corner.
    fn outside(points: &[Point], from: Point, to: Point) -> (Vec<Point>, Option<Point>) {
        let (mut outside, mut best) = (Vec::new(), None);
        let (x, y) = (to.0 - from.0, to.1 - from.1);
        for point in points {
            let distance = y * (point.0 - from.0) - x * (point.1 - from.1);
            if distance > 0 {
                outside.push(*point);
                best = best.max(Some((distance, (-point.0, -point.1))));
            }
        }
        (outside, best.map(|(_, (x, y))| (-x, -y)))
    }

    /// Returns the hull of two hulls.
    pub fn merge(mut one: Found, other: Found) -> Found {
        one.hulls += other.hulls;
        one.corners += other.corners;
        one.hull.extend(other.hull);
        one.hull = hull(&one.hull);
        one.hulls += 1;
        one.corners += one.hull.len() as u64;
        one
    }

    /// Returns twice the area.
    pub fn area(hull: &[Point]) -> i64 {
        let edges = hull.iter().zip(hull.iter().cycle().skip(1));
        edges.map(|(a, b)| a.0 * b.1 - a.1 * b.0).sum()
    }
}

/// Returns the hull of all batches that this thread takes.
#[probe]
fn work(next: &AtomicU64, batches: u64) -> Option<Found> {
    let mut all: Option<Found> = None;
    loop {
        let batch = next.fetch_add(1, Ordering::Relaxed);
        if batch >= batches {
            return all;
        }
        let hull = geometry::hull(&geometry::scatter(batch));
        let found = Found { hulls: 1, corners: hull.len() as u64, hull };
        all = Some(match all {
            Some(all) => geometry::merge(all, found),
            None => found,
        });
    }
}

#[probe]
fn run(batches: u64, threads: usize) -> Done {
    let next = AtomicU64::new(0);
    let found = on_threads(threads, |_| work(&next, batches)).into_iter().flatten();
    let Found { hull, hulls, corners } = found.reduce(geometry::merge).unwrap_or_default();
    let area = geometry::area(&hull);
    // Each hull has two sides. Each corner but the two ends is found on a side, which it splits in
    // two.
    let sides = 2 * corners - 2 * hulls;
    Done {
        result: format!(
            "{} of {} points are corners of the hull; twice its area is {area}",
            hull.len(),
            batches * BATCH as u64
        ),
        calls: vec![
            ("run", 1),
            ("work", threads as u64),
            ("geometry::scatter", batches),
            ("geometry::hull", hulls),
            ("geometry::ends", hulls),
            ("geometry::side", sides),
            ("geometry::outside", sides),
            ("geometry::merge", hulls - batches),
            ("geometry::area", 1),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computes the same corners in another way: Andrew's monotone chain.
    fn by_chains(mut points: Vec<Point>) -> Vec<Point> {
        points.sort_unstable();
        points.dedup();
        let chain = |points: &mut dyn Iterator<Item = Point>| {
            let mut chain: Vec<Point> = Vec::new();
            for point in points {
                while let [.., a, b] = chain[..]
                    && (b.0 - a.0) * (point.1 - a.1) <= (b.1 - a.1) * (point.0 - a.0)
                {
                    chain.pop();
                }
                chain.push(point);
            }
            chain.pop();
            chain
        };
        let mut hull = chain(&mut points.iter().copied());
        hull.extend(chain(&mut points.iter().rev().copied()));
        hull
    }

    #[test]
    fn monotone_chains_find_the_same_corners() {
        for batch in 0..20 {
            let points = geometry::scatter(batch);
            assert_eq!(geometry::hull(&points), by_chains(points), "{batch}");
        }
        let grid: Vec<Point> = (0..100).map(|n| (n % 10, n / 10)).collect();
        assert_eq!(geometry::hull(&grid), [(0, 0), (9, 0), (9, 9), (0, 9)]);
    }
}
