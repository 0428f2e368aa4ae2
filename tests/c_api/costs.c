/* Functions whose hot path is compared with that of the same functions without probes. */
#include <probe.h>

int leaf(int x) {
    PROBE("leaf");
    return x + 1;
}

long leaf_field(long x, long y) {
    PROBE_U64("leaf_field", x * y / 3);
    return x + y;
}

const char *leaf_text(const char *text) {
    PROBE_STR("leaf_text", text);
    return text + 1;
}

double leaf_two_fields(double x, long y) {
    PROBE_2("leaf_two_fields", F64, "x", x * 3, I64, "y", y * 5);
    return x;
}

/* All of them are needed after the probe. */
double arguments_in_vectors(double a, double b, double c, double d) {
    PROBE("arguments_in_vectors");
    return a * b + c * d;
}

unsigned long red_zone(unsigned long x) {
    volatile unsigned long area[14];
    area[0] = x;
    area[13] = x + 1;
    PROBE_U64("red_zone", area[13]);
    return area[0] + area[13];
}

static inline int inlined(int x) {
    PROBE_I64("inlined", x);
    return x * 3;
}

int inlined_three_times(int x) {
    return inlined(x) + inlined(x + 1) * inlined(x ^ 5);
}

int elsewhere(int x);

int caller(int x) {
    int y;
    PROBE_U64("before", x);
    y = elsewhere(x + 1);
    PROBE_U64("after", y);
    return x + y;
}

long loop_field(const long *x, long n) {
    long i, sum = 0;
    for (i = 0; i < n; i++) {
        sum += x[i];
        PROBE_I64("loop_field", sum);
    }
    return sum;
}

double loop_float(const double *x, long n) {
    double sum = 0;
    long i;
    for (i = 0; i < n; i++) {
        sum += x[i] * 1.5;
        PROBE_F64("loop_float", sum);
    }
    return sum;
}

/* Part of the value does not change in the loop. */
long loop_computed(const long *x, long n, long a) {
    long i, sum = 0;
    for (i = 0; i < n; i++) {
        sum ^= x[i];
        PROBE_U64("loop_computed", x[i] * a * 17);
    }
    return sum;
}

long global;

/* The loop keeps the global variable in a register across hits, as it may across signals. */
void loop_global(const long *x, long n) {
    long i;
    for (i = 0; i < n; i++) {
        global += x[i];
        PROBE("loop_global");
    }
}

long loop_text(const long *x, long n) {
    long i, sum = 0;
    for (i = 0; i < n; i++) {
        sum += x[i];
        PROBE_STR("loop_text", "a literal");
    }
    return sum;
}
