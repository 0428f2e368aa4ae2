//! Bodies that attract each other, step by step. Each thread moves a part of them, by the forces of
//! all.

use std::ops::Range;
use std::sync::{Barrier, PoisonError, RwLock};

use probe_runtime::probe;

use crate::{Done, Program, on_threads, random, seed};

/// The program; a unit of work is one step of [`BODIES`] bodies.
pub const PROGRAM: Program =
    Program { name: "nbody", probes: "probe_programs::nbody::**", unit: "steps", work: 120, run };

/// Number of bodies.
pub const BODIES: usize = 400;

const STEP: f64 = 0.01;

type Vector = [f64; 3];

/// A body.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Body {
    at: Vector,
    speed: Vector,
    mass: f64,
}

/// Bodies in space. The units are astronomical units, years, and a mass of which the Sun has 4
/// π², so that the constant of gravitation is 1.
#[derive(Clone, PartialEq, Debug)]
pub struct System(Vec<Body>);

#[probe(all)]
impl System {
    /// Returns the Sun and its four giant planets, with the data of the Computer Language
    /// Benchmarks Game.
    pub fn solar() -> Self {
        const SUN: f64 = 4.0 * std::f64::consts::PI * std::f64::consts::PI;
        let day = |per_day: f64| per_day * 365.24;
        let planet = |at, speed: Vector, suns: f64| Body { at, speed: speed.map(day), mass: suns * SUN };
        let mut bodies = vec![
            Body { at: [0.0; 3], speed: [0.0; 3], mass: SUN },
            planet(
                [4.841_431_442_464_721, -1.160_320_044_027_428_4, -1.036_220_444_711_231_1e-1],
                [1.660_076_642_744_037e-3, 7.699_011_184_197_404e-3, -6.904_600_169_720_63e-5],
                9.547_919_384_243_266e-4,
            ),
            planet(
                [8.343_366_718_244_58, 4.124_798_564_124_305, -4.035_234_171_143_214e-1],
                [-2.767_425_107_268_624e-3, 4.998_528_012_349_172e-3, 2.304_172_975_737_639_3e-5],
                2.858_859_806_661_308e-4,
            ),
            planet(
                [1.289_436_956_213_913_1e1, -1.511_115_140_169_863_1e1, -2.233_075_788_926_557_3e-1],
                [2.964_601_375_647_616e-3, 2.378_471_739_594_809_5e-3, -2.965_895_685_402_375_6e-5],
                4.366_244_043_351_563e-5,
            ),
            planet(
                [1.537_969_711_485_091_7e1, -2.591_931_460_998_796_4e1, 1.792_587_729_503_711_8e-1],
                [2.680_677_724_903_893_2e-3, 1.628_241_700_382_423e-3, -9.515_922_545_197_159e-5],
                5.151_389_020_466_114_5e-5,
            ),
        ];
        // The sum of all momenta is zero.
        bodies[0].speed =
            std::array::from_fn(|n| -bodies.iter().map(|body| body.speed[n] * body.mass).sum::<f64>() / SUN);
        Self(bodies)
    }

    /// Returns this many light bodies in a cube.
    pub fn cluster(bodies: usize) -> Self {
        let mut state = seed(1);
        let mut body = || {
            let at = [unit(&mut state), unit(&mut state), unit(&mut state)];
            let speed = [unit(&mut state), unit(&mut state), unit(&mut state)];
            Body { at: at.map(|x| 20.0 * x - 10.0), speed: speed.map(|v| v - 0.5), mass: unit(&mut state) }
        };
        Self((0..bodies).map(|_| body()).collect())
    }

    /// Moves all bodies by this many steps. Each thread moves a part of them; the result does not
    /// depend on the number of threads.
    #[must_use]
    pub fn simulate(self, steps: u64, step: f64, threads: usize) -> Self {
        let len = self.0.len();
        let threads = threads.min(len);
        let shared = Shared { bodies: RwLock::new(self), barrier: Barrier::new(threads), step };
        on_threads(threads, |thread| {
            shared.work(thread * len / threads..(thread + 1) * len / threads, steps);
        });
        shared.bodies.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn acceleration(&self, of: usize) -> Vector {
        let mut sum = [0.0; 3];
        for by in (0..self.0.len()).filter(|by| *by != of) {
            let pull = pull(&self.0[of], &self.0[by]);
            (0..3).for_each(|n| sum[n] += pull[n]);
        }
        sum
    }

    /// Returns the kinetic and potential energy.
    pub fn energy(&self) -> f64 {
        let mut energy = 0.0;
        for (at, body) in self.0.iter().enumerate() {
            energy += 0.5 * body.mass * body.speed.iter().map(|v| v * v).sum::<f64>();
            for other in &self.0[at + 1..] {
                let square: f64 = (0..3).map(|n| (body.at[n] - other.at[n]).powi(2)).sum();
                energy -= body.mass * other.mass / square.sqrt();
            }
        }
        energy
    }
}

/// Returns the acceleration of one body by another.
#[probe]
fn pull(on: &Body, by: &Body) -> Vector {
    let apart: Vector = std::array::from_fn(|n| by.at[n] - on.at[n]);
    let square: f64 = apart.iter().map(|d| d * d).sum();
    let force = by.mass / (square * square.sqrt());
    apart.map(|d| d * force)
}

/// Returns a random number from 0 to 1.
#[probe]
fn unit(state: &mut u64) -> f64 {
    f64::from(u32::try_from(random(state) >> 32).unwrap_or_default()) / f64::from(u32::MAX)
}

struct Shared {
    bodies: RwLock<System>,
    barrier: Barrier,
    step: f64,
}

#[probe(all)]
impl Shared {
    /// Moves this thread's bodies.
    fn work(&self, mine: Range<usize>, steps: u64) {
        let mut own = self.bodies.read().unwrap_or_else(PoisonError::into_inner).0[mine.clone()].to_vec();
        for _ in 0..steps {
            self.advance(mine.start, &mut own);
            self.exchange(mine.clone(), &own);
        }
    }

    /// Advances `bodies` by a step; the first one has this index.
    fn advance(&self, first: usize, bodies: &mut [Body]) {
        let all = self.bodies.read().unwrap_or_else(PoisonError::into_inner);
        for (at, body) in bodies.iter_mut().enumerate() {
            let acceleration = all.acceleration(first + at);
            (0..3).for_each(|n| body.speed[n] += self.step * acceleration[n]);
            (0..3).for_each(|n| body.at[n] += self.step * body.speed[n]);
        }
    }

    /// Publishes this thread's bodies once all threads have finished reading the previous step.
    fn exchange(&self, mine: Range<usize>, own: &[Body]) {
        self.barrier.wait();
        self.bodies.write().unwrap_or_else(PoisonError::into_inner).0[mine].copy_from_slice(own);
        self.barrier.wait();
    }
}

#[probe]
fn run(steps: u64, threads: usize) -> Done {
    let system = System::cluster(BODIES);
    let before = system.energy();
    let threads = threads.clamp(1, BODIES);
    let system = system.simulate(steps, STEP, threads);
    let after = system.energy();
    let (bodies, workers) = (BODIES as u64, threads as u64);
    Done {
        result: format!("{BODIES} bodies, {steps} steps: their energy is {after:.6}, and was {before:.6}"),
        calls: vec![
            ("run", 1),
            ("unit", 7 * bodies),
            ("pull", steps * bodies * (bodies - 1)),
            ("System::cluster", 1),
            ("System::simulate", 1),
            ("System::acceleration", steps * bodies),
            ("System::energy", 2),
            ("Shared::work", workers),
            ("Shared::advance", steps * workers),
            ("Shared::exchange", steps * workers),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_solar_system_is_as_published() {
        let system = System::solar();
        assert_eq!(format!("{:.9}", system.energy()), "-0.169075164");
        let later = system.clone().simulate(1000, STEP, 1);
        assert_eq!(format!("{:.9}", later.energy()), "-0.169087605");
        assert_eq!(system.simulate(1000, STEP, 3), later, "to the last bit");
    }
}
