/* An object whose probes a later version has laid out. Its note has another type, which this
   version can't read. With BOTH defined, there is a probe of this version, too. */
__asm__(
    ".pushsection .note.latent_probe, \"a\", @note\n"
    ".p2align 2\n"
    ".long 12, 16, 2\n"
    ".asciz \"LatentProbe\"\n"
    ".quad -1, 0x7fffffffffffffff\n"
    ".popsection\n");

#ifdef BOTH
#define PROBE_PROVIDER "later"
#include <probe.h>
#endif

unsigned long later_work(unsigned long n)
{
#ifdef BOTH
    PROBE("known");
#endif
    return n + 1;
}
