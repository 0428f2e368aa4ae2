/* A library with functions that a module of its own names. */
double mixed(int a, double b, char c, float d, long e, short f, const char *g, unsigned char h, long i, double j,
             double k, double l, double m, double n, double o, double p, double q);
long sum(long a, long b, long c, long d, long e, long f, long g, long h, long i);
int twice(int n);
int again(int n);

double mixed(int a, double b, char c, float d, long e, short f, const char *g, unsigned char h, long i, double j,
             double k, double l, double m, double n, double o, double p, double q) {
    return a + b + c + d + e + f + g[0] + h + i + j + k + l + m + n + o + p + q;
}

long sum(long a, long b, long c, long d, long e, long f, long g, long h, long i) {
    return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + 9 * i;
}

int twice(int n) { return 2 * n; }

/* With -Bsymbolic, this call stays inside of the library. */
int again(int n) { return twice(n) + twice(n); }
