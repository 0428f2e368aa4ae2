// Functions whose points leave every register as it was: without fields, and with one whose value
// the cold block loads.
#include <probe.h>

void state_point(void) { PROBE("state_point"); }

void state_number(void) { PROBE_U64("state_number", 7); }
