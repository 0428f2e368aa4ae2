int ext(int);
extern int (*table[4])(int);
static inline int twice(int x) { return ext(x) * 2; }
__attribute__((noinline)) static int inner(int x) { return ext(x) + 1; }
int tail(int x) { return ext(x + 1); }
int indirect(int x) { return table[x & 3](x); }
int choose(int x) {
    switch (x) {
    case 0: return ext(3);
    case 1: return ext(9) + 1;
    case 2: return 88;
    case 3: return twice(x);
    case 4: return 1 + ext(7);
    case 5: return inner(3);
    default: __builtin_abort();
    }
}
int go(unsigned char *p) {
    static void *to[] = {&&a, &&b, &&c};
    int s = 0;
    goto *to[*p++];
a:  s += ext(1);
    goto *to[*p++];
b:  s *= 2;
    goto *to[*p++];
c:  return s;
}
int maybe(int x) { if (x) return ext(x); return 0; }
int fences(void) { int a = 0; __asm__ volatile("1: pause; jne 1b" : "+r"(a)); return a; }
int loop(int *p) { do { *p += ext(*p); } while (*p < 100); return 3; }
