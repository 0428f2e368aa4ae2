// Passes arguments of all kinds, and catches exceptions.
#include <cstdio>
#include <stdexcept>

extern "C" {
double mixed(int a, double b, char c, float d, long e, short f, const char *g, unsigned char h, long i, double j,
             double k, double l, double m, double n, double o, double p, double q);
long sum(long a, long b, long c, long d, long e, long f, long g, long h, long i);
int risky(int number);
}

int main() {
    int caught = 0;
    for (int number = 0; number < 200; number++) {
        try {
            risky(number);
        } catch (const std::runtime_error &) {
            caught++;
        }
    }
    double mix = mixed(-7, 2.5, 'c', 1.5f, -4, -3, "hello", 200, 500, 1, 2, 3, 4, 5, 6, 86.5, 5000);
    std::printf("%.1f %ld %d\n", mix, sum(1, 2, 3, 4, 5, 6, 7, 8, 14), caught);
    return 0;
}
