//! Molecular dynamics with threads: a Lennard-Jones fluid in a periodic box, with cell lists and
//! velocity Verlet, in reduced units. The same sums in the same order as `c/molecules.c`.

/// Defines the program, with this attribute on each of its functions, or without.
macro_rules! fluid {
    ($module:ident, $(#[$attribute:meta])?) => {
        mod $module {
            use std::sync::{Barrier, PoisonError, RwLock};
            use std::thread;

            const PARTICLES: usize = 1_000;
            const CELLS: usize = 4;
            const NONE: usize = usize::MAX;
            const LENGTH: f64 = 10.8;
            const APART: f64 = LENGTH / 10.0;
            const CELLS_PER_LENGTH: f64 = 4.0 / LENGTH;
            const CUTOFF2: f64 = 6.25;
            const STEP: f64 = 0.004;
            /// The potential at the cutoff.
            const SHIFT: f64 = 4.0 * (1.0 / 59_604.644_775_390_625 - 1.0 / 244.140_625);

            type Vector = [f64; 3];

            #[derive(Clone, Copy)]
            struct Particle {
                at: Vector,
                speed: Vector,
                force: Vector,
                potential: f64,
            }

            /// All positions, and the particles in each cell: its first one, and the next of each.
            struct Cells {
                at: Vec<Vector>,
                first: Vec<usize>,
                next: Vec<usize>,
            }

            /// xorshift64, as a number from -1 to 1.
            $(#[$attribute])?
            #[inline(never)]
            fn random(state: &mut u64) -> f64 {
                *state ^= *state << 13;
                *state ^= *state >> 7;
                *state ^= *state << 17;
                f64::from(u32::try_from(*state >> 32).unwrap_or_default()) / 4_294_967_295.0 * 2.0 - 1.0
            }

            $(#[$attribute])?
            #[inline(never)]
            fn place() -> Vec<Particle> {
                let mut state = 0x9e37_79b9_7f4a_7c15;
                let one = |number: u32| {
                    let place = [number % 10, number / 10 % 10, number / 100];
                    let at = place.map(|it| (f64::from(it) + 0.5) * APART);
                    let speed = [random(&mut state), random(&mut state), random(&mut state)];
                    Particle { at, speed, force: [0.0; 3], potential: 0.0 }
                };
                (0..1_000).map(one).collect()
            }

            /// Returns the coordinate of the cell at a position.
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within the box")]
            fn cell(at: f64) -> usize {
                ((at * CELLS_PER_LENGTH) as usize).min(CELLS - 1)
            }

            $(#[$attribute])?
            #[inline(never)]
            fn sort(cells: &mut Cells) {
                cells.first.fill(NONE);
                for (i, at) in cells.at.iter().enumerate() {
                    let c = (cell(at[2]) * CELLS + cell(at[1])) * CELLS + cell(at[0]);
                    cells.next[i] = cells.first[c];
                    cells.first[c] = i;
                }
            }

            /// Returns force over distance of two particles at this squared distance. Adds their
            /// potential.
            $(#[$attribute])?
            #[inline(never)]
            fn pair(square: f64, sum: &mut f64) -> f64 {
                let inverse = 1.0 / square;
                let sixth = inverse * inverse * inverse;
                *sum += 4.0 * sixth * (sixth - 1.0) - SHIFT;
                48.0 * sixth * (sixth - 0.5) * inverse
            }

            $(#[$attribute])?
            #[inline(never)]
            fn force(cells: &Cells, own: usize, particle: &mut Particle) {
                let (mut sum, mut energy) = ([0.0; 3], 0.0);
                let place = cells.at[own].map(cell);
                for near in 0..27 {
                    let [x, y, z] = [near % 3, near / 3 % 3, near / 9];
                    let [x, y, z] = [place[0] + x, place[1] + y, place[2] + z].map(|it| (it + 3) % CELLS);
                    let mut other = cells.first[(z * CELLS + y) * CELLS + x];
                    while other != NONE {
                        let apart: Vector = std::array::from_fn(|n| {
                            let apart = cells.at[own][n] - cells.at[other][n];
                            if apart > LENGTH / 2.0 {
                                apart - LENGTH
                            } else if apart < -LENGTH / 2.0 {
                                apart + LENGTH
                            } else {
                                apart
                            }
                        });
                        let square = apart[0] * apart[0] + apart[1] * apart[1] + apart[2] * apart[2];
                        if square < CUTOFF2 && other != own {
                            let factor = pair(square, &mut energy);
                            (0..3).for_each(|n| sum[n] += apart[n] * factor);
                        }
                        other = cells.next[other];
                    }
                }
                (particle.force, particle.potential) = (sum, energy);
            }

            $(#[$attribute])?
            #[inline(never)]
            fn kick(particle: &mut Particle) {
                (0..3).for_each(|n| particle.speed[n] += particle.force[n] * (STEP / 2.0));
            }

            $(#[$attribute])?
            #[inline(never)]
            fn drift(particle: &mut Particle) {
                for (at, speed) in particle.at.iter_mut().zip(particle.speed) {
                    *at += speed * STEP;
                    if *at >= LENGTH {
                        *at -= LENGTH;
                    } else if *at < 0.0 {
                        *at += LENGTH;
                    }
                }
            }

            /// Publishes the positions of this thread's particles, and sorts all.
            $(#[$attribute])?
            #[inline(never)]
            fn exchange(cells: &RwLock<Cells>, barrier: &Barrier, first: usize, own: &[Particle]) {
                let write = || cells.write().unwrap_or_else(PoisonError::into_inner);
                write().at[first..][..own.len()].iter_mut().zip(own).for_each(|(at, of)| *at = of.at);
                if barrier.wait().is_leader() {
                    sort(&mut write());
                }
                barrier.wait();
            }

            $(#[$attribute])?
            #[inline(never)]
            fn forces(cells: &RwLock<Cells>, barrier: &Barrier, first: usize, own: &mut [Particle]) {
                let cells = cells.read().unwrap_or_else(PoisonError::into_inner);
                own.iter_mut().enumerate().for_each(|(n, of)| force(&cells, first + n, of));
                drop(cells);
                barrier.wait();
            }

            $(#[$attribute])?
            #[inline(never)]
            fn step(cells: &RwLock<Cells>, barrier: &Barrier, first: usize, own: &mut [Particle]) {
                own.iter_mut().for_each(|of| {
                    kick(of);
                    drift(of);
                });
                exchange(cells, barrier, first, own);
                forces(cells, barrier, first, own);
                own.iter_mut().for_each(kick);
            }

            $(#[$attribute])?
            #[inline(never)]
            fn energy(particles: &[Particle]) -> f64 {
                particles.iter().fold(0.0, |energy, of| {
                    let v = of.speed;
                    energy + (0.5 * (v[0] * v[0] + v[1] * v[1] + v[2] * v[2]) + 0.5 * of.potential)
                })
            }

            /// Returns the total energy after this many steps, on this many threads.
            $(#[$attribute])?
            #[inline(never)]
            pub(crate) fn run(steps: u64, threads: usize) -> f64 {
                let mut particles = place();
                let at = particles.iter().map(|of| of.at).collect();
                let mut cells = Cells { at, first: vec![NONE; CELLS.pow(3)], next: vec![NONE; PARTICLES] };
                sort(&mut cells);
                let (cells, barrier) = (RwLock::new(cells), Barrier::new(threads));
                let mut rest = &mut particles[..];
                thread::scope(|scope| {
                    for thread in 0..threads {
                        let [start, end] = [thread, thread + 1].map(|it| it * PARTICLES / threads);
                        let own;
                        (own, rest) = rest.split_at_mut(end - start);
                        let (cells, barrier) = (&cells, &barrier);
                        scope.spawn(move || {
                            forces(cells, barrier, start, own);
                            (0..steps).for_each(|_| step(cells, barrier, start, own));
                        });
                    }
                });
                energy(&particles)
            }
        }
    };
}
