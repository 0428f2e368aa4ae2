//! Latencies, a call tree and a flame graph of a program that computes convex hulls on several
//! threads.
//!
//! ```text
//! cargo run --release --example latency [FILE.svg]
//! ```
//!
//! Each worker takes batches of points from a common stock and computes the hull of each (Andrew's
//! monotone chain). It merges these hulls into one; at the end, the program merges those of all
//! workers. One attribute on the module puts `#[probe]` on every function. Both consumers are
//! attached to the same probes at the same time.

use std::env;
use std::error::Error;
use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use probe_runtime::{CallTree, Latency, probe, select};

const BATCHES: u64 = 400;
const BATCH: usize = 2_500;
const WORKERS: usize = 4;

type Point = (i64, i64);

#[probe(all)]
mod geometry {
    use super::{BATCH, BATCHES, Point};
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Merges the hulls of batches until no batch is left. Each worker runs this once.
    pub fn work(stock: &AtomicU64) -> Vec<Point> {
        let mut all = Vec::new();
        loop {
            let batch = stock.fetch_add(1, Ordering::Relaxed);
            if batch >= BATCHES {
                return all;
            }
            let hull = hull(scatter(batch));
            all = merge(all, hull);
        }
    }

    /// Returns points in a disc, the same for each batch number on every run.
    fn scatter(batch: u64) -> Vec<Point> {
        let mut state = batch.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state % 2_000_001).cast_signed() - 1_000_000
        };
        let mut points = Vec::with_capacity(BATCH);
        while points.len() < BATCH {
            let (x, y) = (next(), next());
            if x * x + y * y <= 1_000_000_000_000 {
                points.push((x, y));
            }
        }
        points
    }

    /// Returns the hull of the points, counterclockwise.
    pub fn hull(mut points: Vec<Point>) -> Vec<Point> {
        sort(&mut points);
        let mut hull = chain(points.iter().copied());
        let upper = chain(points.iter().rev().copied());
        hull.extend(upper);
        hull
    }

    fn sort(points: &mut Vec<Point>) {
        points.sort_unstable();
        points.dedup();
    }

    /// Returns one side of the hull, without its last point, which is the other side's first.
    fn chain(points: impl Iterator<Item = Point>) -> Vec<Point> {
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
    }

    /// Returns the hull of two hulls.
    pub fn merge(mut one: Vec<Point>, other: Vec<Point>) -> Vec<Point> {
        one.extend(other);
        hull(one)
    }

    /// Returns twice the area.
    pub fn area(hull: &[Point]) -> i64 {
        let edges = hull.iter().zip(hull.iter().cycle().skip(1));
        edges.map(|(a, b)| a.0 * b.1 - a.1 * b.0).sum()
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let probes = select("latency::geometry::*")?;
    let (latency, calls) = (probes.attach(Latency::new())?, probes.attach(CallTree::new())?);

    let stock = AtomicU64::new(0);
    let hull = thread::scope(|scope| {
        let worker = |number: usize| {
            let name = format!("worker {number}");
            thread::Builder::new().name(name).spawn_scoped(scope, || geometry::work(&stock))
        };
        let workers: Result<Vec<_>, _> = (0..WORKERS).map(worker).collect();
        let hulls = workers?.into_iter().filter_map(|worker| worker.join().ok());
        Ok::<_, std::io::Error>(hulls.reduce(geometry::merge).unwrap_or_default())
    })?;
    assert_eq!(stock.load(Ordering::Relaxed), BATCHES + WORKERS as u64);
    println!(
        "{} points on the hull of {}, twice its area is {}\n",
        hull.len(),
        BATCHES * BATCH as u64,
        geometry::area(&hull)
    );

    println!("{latency}\n\n{calls}\n\n{}", calls.threads());
    if let Some(file) = env::args_os().nth(1) {
        fs::write(&file, calls.threads().to_svg())?;
        println!("\nthe flame graph is in {}", file.display());
    }
    Ok(())
}
