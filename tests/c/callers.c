/* Calls of `callee` in the ways that compilers have, and how often each stack of callers made them:
   lines of `caller;…;callee count`. */

#include <alloca.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "torture.h"

COUNTED(callers);

#if defined(__clang__)
#define APART __attribute__((noinline))
#else
#define APART __attribute__((noinline, noclone, noipa))
#endif

static __thread const char *volatile names[64];
static __thread volatile int depth;
static __thread struct {
    char stack[512];
    unsigned long calls;
} tally[64];
static __thread char text[16384];

APART __attribute__((no_instrument_function)) static void count(void)
{
    char stack[512] = "";
    for (int at = 0; at < depth; at++)
        strcat(strcat(stack, names[at]), ";");
    strcat(stack, "callee");
    for (int at = 0; at < 64; at++) {
        if (tally[at].calls == 0)
            strcpy(tally[at].stack, stack);
        if (strcmp(tally[at].stack, stack) == 0) {
            tally[at].calls++;
            return;
        }
    }
}

volatile unsigned long sink;

/* Each of these begins with its name. */
#define IN(name, ...)                                                                               \
    do {                                                                                            \
        names[depth++] = name;                                                                      \
        __VA_ARGS__;                                                                                \
        depth--;                                                                                    \
    } while (0)

APART void callee(unsigned long n)
{
    count();
    sink += n;
}

APART void direct(unsigned long n) { IN("direct", callee(n)); }

APART void twice(unsigned long n) { IN("twice", callee(n); sink++; callee(n + 1)); }

APART void recursive(unsigned long n)
{
    IN("recursive", if (n > 0) recursive(n - 1); else callee(n));
}

void (*volatile pointer)(unsigned long) = callee;

APART void through_pointer(unsigned long n) { IN("through_pointer", pointer(n)); }

/* Callers of it have frames of several pages. */
APART void large(unsigned long n)
{
    char room[20000];
    memset(room, (int)n, sizeof room);
    IN("large", direct(n));
    sink += room[n];
}

/* Its frame has a size that only the frame pointer knows. */
APART void of_any_size(unsigned long n)
{
    char *room = alloca(16 + 64 * n);
    memset(room, (int)n, 16);
    IN("of_any_size", callee(n));
    sink += room[3];
}

/* The call is a jump where compilers optimise, and nothing of it is left on the stack. */
#if defined(__OPTIMIZE__) && !defined(HOOKED)
APART void tail(unsigned long n) { callee(n); }
#else
APART void tail(unsigned long n) { IN("tail", callee(n)); }
#endif

APART void before_tail(unsigned long n) { IN("before_tail", tail(n)); }

/* It keeps registers that calls keep, `rbp` among them where that is no frame pointer. */
APART void busy(unsigned long n)
{
    unsigned long a = n * 3, b = n ^ 5, c = n + 7, d = n << 2, e = n | 9, f = n * n;
    names[depth++] = "busy";
    for (int at = 0; at < 3; at++) {
        direct(a + b);
        a += f, b ^= c, c *= d, d -= e, e += a, f ^= b;
        callee(c + d);
    }
    depth--;
    sink += a + b + c + d + e + f;
}

static void handler(int signal) { IN("handler", callee((unsigned long)signal)); }

APART void signalled(unsigned long n)
{
    IN("signalled", raise(SIGUSR2));
    sink += n;
}

static __thread jmp_buf buffer;

APART void jumping(unsigned long n)
{
    callee(n);
    longjmp(buffer, 1);
}

APART void jumped(unsigned long n)
{
    int before = depth;
    names[depth++] = "jumped";
    if (setjmp(buffer) == 0) {
        names[depth++] = "jumping";
        jumping(n);
    }
    depth = before;
}

APART void callers(void)
{
    struct sigaction action = {.sa_handler = handler}, former;
    ENTER(callers);
    sigaction(SIGUSR2, &action, &former);
    memset(tally, 0, sizeof tally);
    for (unsigned long n = 0; n < 5; n++) {
        direct(n);
        twice(n);
        recursive(n % 3);
        through_pointer(n);
        large(n);
        of_any_size(n);
        before_tail(n);
        busy(n);
        signalled(n);
        jumped(n);
    }
    sigaction(SIGUSR2, &former, 0);
}

const char *callers_log(void)
{
    text[0] = 0;
    for (int at = 0; at < 64 && tally[at].calls; at++)
        sprintf(text + strlen(text), "%s %lu\n", tally[at].stack, tally[at].calls);
    return text;
}
