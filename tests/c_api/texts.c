/* Texts that are none. */
#include <probe.h>
#include <signal.h>
#include <stdint.h>

uint64_t pass(uint64_t address)
{
    PROBE_STR("pass", (const char *)address);
    return address;
}

uint64_t pass_bytes(uint64_t address)
{
    PROBE_BYTES("pass_bytes", (const char *)address, 5);
    return address;
}

static void ignore(int signal) { (void)signal; }

/* As a program that takes crashes into its own hands. */
uint64_t take_signal(uint64_t signal)
{
    struct sigaction own = { .sa_handler = ignore };
    return (uint64_t)sigaction((int)signal, &own, 0);
}
