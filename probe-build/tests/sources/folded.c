#include <stdio.h>

/* Two functions of the same code, which a linker may fold to one. */
__attribute__((noinline)) int first(int n) { return n * 3 + 1; }
__attribute__((noinline)) int second(int n) { return n * 3 + 1; }

int (*volatile functions[])(int) = { first, second };

int main(void)
{
    int sum = functions[0](1) + functions[1](2);
    printf("%d %s\n", sum, functions[0] == functions[1] ? "folded" : "apart");
    return 0;
}
