#include <stdlib.h>

void plugged(void);

void plugged(void) { free(malloc(7)); }
