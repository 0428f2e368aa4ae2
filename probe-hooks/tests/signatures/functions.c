#include <complex.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

#define KEEP __attribute__((noinline, used))

typedef enum mode { CLOSED = -1, READ, WRITE = 7 } mode_t;
enum flags { NONE, FIRST = 1, LAST = 0x80000000u };
typedef unsigned char byte;
typedef const char *const name_t;

struct one { int a; };
struct two { long a, b; };
struct mixed { int a; double b; };
struct floats { float a, b, c; };
struct large { long a, b, c; };
struct packed { char a; int b; } __attribute__((packed));
struct empty {};
struct bits { unsigned a : 3; long b : 40; };
struct nested { struct one a[2]; union { float b; char c[4]; } d; };
struct aligned { int a; } __attribute__((aligned(32)));
typedef float vector __attribute__((vector_size(16)));
typedef float wide_vector __attribute__((vector_size(32)));

volatile long sink;

KEEP int scalars(int8_t a, uint16_t b, int c, unsigned long d, bool e, char f) { sink = a + b + c + d + e + f; return c; }
KEEP double floating(float a, double b, int c, long double d, float e) { sink = a + c + (long)d; return b + e; }
KEEP void many(long a, long b, long c, long d, long e, long f, short g, float x, const char *h) { sink = a + b + c + d + e + f + g + (long)x + *h; }
KEEP mode_t enums(mode_t mode, enum flags flags) { sink = flags; return mode; }
KEEP name_t pointers(char *text, void *any, name_t name, byte *bytes, const struct two *two, char **texts) { sink = *text + *bytes + two->a + (long)any + (long)texts; return name; }
KEEP struct one small_struct(struct one a, int after) { sink = after; return a; }
KEEP struct two pair_struct(struct two a, int after) { sink = after; return a; }
KEEP struct mixed mixed_struct(struct mixed a, int i, double d) { sink = i + (long)d; return a; }
KEEP struct floats float_struct(struct floats a, double d) { sink = (long)d; return a; }
KEEP struct large large_struct(int i, struct large a, int after) { sink = i + after; return a; }
KEEP int odd_structs(struct packed a, struct empty b, struct bits c, struct nested d, int after) { (void)b; sink = a.a + c.a + d.a[0].a; return after; }
KEEP int aligned_struct(struct aligned a, int first, int i, int j, int k, int l, int m, int n) { sink = a.a + first + i + j + k + l + m; return n; }
KEEP double _Complex complexes(float _Complex a, double _Complex b, double after) { sink = (long)(creal(b) + after); return a; }
KEEP int vectors(vector a, float after, wide_vector *b) { sink = (long)(a[0] + after + (*b)[1]); return 3; }
KEEP __int128 wide(int a, __int128 b, int after) { sink = a + after; return b; }
KEEP int split_wide(int a, int b, int c, int d, int e, __int128 f, int g, int h) { sink = a + b + c + d + e + f + h; return g; }
KEEP int split_pair(int a, int b, int c, int d, int e, struct two f, int g, int h) { sink = a + b + c + d + e + f.a + h; return g; }
KEEP long variadic(const char *format, int count, ...) {
    va_list list;
    long sum = *format;
    va_start(list, count);
    for (int i = 0; i < count; i++) sum += va_arg(list, int);
    va_end(list);
    return sum;
}
KEEP int unnamed_result(int (*callback)(int), int array[4]) { return callback(array[0]); }
KEEP void nothing(void) { sink = 1; }
