/* A kiosk, which has no probes of its own. */

#include <stdio.h>

enum coin { TWENTY = 20, EURO = 100 };

static long insert(long cents, enum coin coin, const char *who) {
    (void)who;
    return cents + (long)coin;
}

int main(void) {
    long cents = 0;
    for (int i = 0; i < 3; i++) {
        cents = insert(cents, EURO, "anna");
        cents = insert(cents, TWENTY, i ? "ben" : "anna");
    }
    printf("%ld cents\n", cents);
    return 0;
}
