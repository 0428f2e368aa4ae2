/* Molecular dynamics with OpenMP: a Lennard-Jones fluid in a periodic box, with cell lists and
 * velocity Verlet, in reduced units. The same sums in the same order as molecules/fluid.rs. */
#include <stdint.h>

enum { SIDE = 10, PARTICLES = SIDE * SIDE * SIDE, CELLS = 4, NONE = -1 };

static const double LENGTH = 10.8, CUTOFF2 = 6.25, STEP = 0.004;
/* The potential at the cutoff. */
static const double SHIFT = 4.0 * (1.0 / 59604.644775390625 - 1.0 / 244.140625);

static double at[PARTICLES][3], speed[PARTICLES][3], force[PARTICLES][3], potential[PARTICLES];
static int first[CELLS * CELLS * CELLS], next[PARTICLES];

#define FUNCTION __attribute__((noinline)) static

/* xorshift64, as a number from -1 to 1. */
FUNCTION double lj_random(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (double)(uint32_t)(*state >> 32) / 4294967295.0 * 2.0 - 1.0;
}

FUNCTION void lj_place(void) {
    uint64_t state = 0x9e3779b97f4a7c15;
    for (int i = 0; i < PARTICLES; i++) {
        const int place[3] = { i % SIDE, i / SIDE % SIDE, i / SIDE / SIDE };
        for (int n = 0; n < 3; n++) {
            at[i][n] = (place[n] + 0.5) * (LENGTH / SIDE);
            speed[i][n] = lj_random(&state);
        }
    }
}

/* Coordinate of the cell at a position. */
static int cell(double x) {
    int cell = (int)(x * (CELLS / LENGTH));
    return cell < CELLS ? cell : CELLS - 1;
}

FUNCTION void lj_sort(void) {
    for (int c = 0; c < CELLS * CELLS * CELLS; c++) {
        first[c] = NONE;
    }
    for (int i = 0; i < PARTICLES; i++) {
        int c = (cell(at[i][2]) * CELLS + cell(at[i][1])) * CELLS + cell(at[i][0]);
        next[i] = first[c];
        first[c] = i;
    }
}

/* Force over distance, and the potential, of two particles at this squared distance. */
FUNCTION double lj_pair(double square, double *sum) {
    double inverse = 1.0 / square;
    double sixth = inverse * inverse * inverse;
    *sum += 4.0 * sixth * (sixth - 1.0) - SHIFT;
    return 48.0 * sixth * (sixth - 0.5) * inverse;
}

FUNCTION void lj_force(int i) {
    double sum[3] = { 0.0, 0.0, 0.0 }, energy = 0.0;
    const int x = cell(at[i][0]), y = cell(at[i][1]), z = cell(at[i][2]);
    for (int c = 0; c < 27; c++) {
        const int of = (((z + c / 9 + 3) % CELLS) * CELLS + (y + c / 3 % 3 + 3) % CELLS) * CELLS
            + (x + c % 3 + 3) % CELLS;
        for (int j = first[of]; j != NONE; j = next[j]) {
            double apart[3], square = 0.0;
            for (int n = 0; n < 3; n++) {
                double d = at[i][n] - at[j][n];
                d -= d > LENGTH / 2 ? LENGTH : d < -LENGTH / 2 ? -LENGTH : 0.0;
                apart[n] = d;
                square += d * d;
            }
            if (square < CUTOFF2 && j != i) {
                const double factor = lj_pair(square, &energy);
                for (int n = 0; n < 3; n++) {
                    sum[n] += apart[n] * factor;
                }
            }
        }
    }
    for (int n = 0; n < 3; n++) {
        force[i][n] = sum[n];
    }
    potential[i] = energy;
}

FUNCTION void lj_kick(int i) {
    for (int n = 0; n < 3; n++) {
        speed[i][n] += force[i][n] * (STEP / 2);
    }
}

FUNCTION void lj_drift(int i) {
    for (int n = 0; n < 3; n++) {
        double x = at[i][n] + speed[i][n] * STEP;
        x -= x >= LENGTH ? LENGTH : x < 0.0 ? -LENGTH : 0.0;
        at[i][n] = x;
    }
}

FUNCTION void lj_forces(void) {
#pragma omp parallel for schedule(static)
    for (int i = 0; i < PARTICLES; i++) {
        lj_force(i);
    }
}

FUNCTION void lj_step(void) {
#pragma omp parallel for schedule(static)
    for (int i = 0; i < PARTICLES; i++) {
        lj_kick(i);
        lj_drift(i);
    }
    lj_sort();
    lj_forces();
#pragma omp parallel for schedule(static)
    for (int i = 0; i < PARTICLES; i++) {
        lj_kick(i);
    }
}

FUNCTION double lj_energy(void) {
    double energy = 0.0;
    for (int i = 0; i < PARTICLES; i++) {
        const double *v = speed[i];
        energy += 0.5 * (v[0] * v[0] + v[1] * v[1] + v[2] * v[2]) + 0.5 * potential[i];
    }
    return energy;
}

/* Returns the bits of the total energy after this many steps. */
__attribute__((visibility("default"))) uint64_t workload(uint64_t steps) {
    lj_place();
    lj_sort();
    lj_forces();
    for (uint64_t step = 0; step < steps; step++) {
        lj_step();
    }
    union { double energy; uint64_t bits; } result = { .energy = lj_energy() };
    return result.bits;
}
