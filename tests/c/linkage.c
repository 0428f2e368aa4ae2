// Functions that are found in every way: by name, by another name, by a weak or a static one, by a
// pointer alone, by the dynamic linker's choice, and functions that nothing calls.
#include "linkage.h"
#include "torture.h"

// Static functions of one name, here and in linkage_other.c; of one name and body, in a header.
COUNTED(same_name);
static NOINLINE long same_name(long x) { ENTER(same_name); return x + 100; }

// By a pointer alone.
COUNTED(only_by_pointer);
static long only_by_pointer(long x) { ENTER(only_by_pointer); return x * 11; }
COUNTED(also_by_pointer);
static long also_by_pointer(long x) { ENTER(also_by_pointer); return x * 13; }
static long (*volatile const pointers[])(long) = {only_by_pointer, also_by_pointer};

// Weak and overridden in linkage_other.c (the linker may drop this one); only weak; with aliases.
COUNTED_IF_PLACED(overridden);
__attribute__((weak)) long overridden(long x) { ENTER(overridden); return x - 1; }
COUNTED(weak);
__attribute__((weak)) NOINLINE long weak(long x) { ENTER(weak); return x * 17; }
COUNTED(named);
NOINLINE long named(long x) { ENTER(named); return x + 19; }
long other_name(long x) __attribute__((alias("named")));
static __typeof__(named) static_name __attribute__((alias("named"), unused));
__attribute__((visibility("hidden"))) long hidden(long x);
COUNTED(hidden);
NOINLINE long hidden(long x) { ENTER(hidden); return x ^ 0x55; }
COUNTED(protected);
__attribute__((visibility("protected"))) NOINLINE long protected(long x) { ENTER(protected); return x ^ 0xaa; }

// Names that are no C names, or long ones.
COUNTED_AS(renamed, "renamed.by.hand");
NOINLINE long renamed(long x) __asm__("renamed.by.hand");
long renamed(long x) { ENTER(renamed); return x + 23; }
COUNTED(dollar$name);
NOINLINE long dollar$name(long x) { ENTER(dollar$name); return x + 29; }
COUNTED(größe);
NOINLINE long größe(long x) { ENTER(größe); return x + 31; }
#define LONG \
    a_function_whose_name_is_so_long_that_it_does_not_fit_into_the_hundred_and_forty_four_bytes_that_a_definition_has_for_text_together_with_its_file_x
COUNTED_AS(long_name, "a_function_whose_name_is_so_long_that_it_does_not_fit_into_the_hundred_and_forty_four_bytes_that_a_definition_has_for_text_together_with_its_file_x");
NOINLINE long LONG(long x) { ENTER(long_name); return x + 37; }

// In sections of their own.
COUNTED(in_section);
__attribute__((section(".text.of_its_own"))) NOINLINE long in_section(long x) { ENTER(in_section); return x + 41; }
COUNTED(hot);
__attribute__((hot)) NOINLINE long hot(long x) { ENTER(hot); return x + 43; }
COUNTED(cold);
__attribute__((cold)) NOINLINE long cold(long x) { ENTER(cold); return x + 47; }

// The dynamic linker calls `choose`, perhaps before all else, even a sanitizer, is initialised.
COUNTED(chosen_first);
static long chosen_first(long x) { ENTER(chosen_first); return x + 53; }
COUNTED(chosen_second);
static long chosen_second(long x) { ENTER(chosen_second); return x + 59; }
COUNTED_IF_PLACED(choose);
__attribute__((used, no_sanitize("thread"))) static long (*choose(void))(long) {
    ENTER(choose);
    __builtin_cpu_init();
    return __builtin_cpu_supports("sse2") ? chosen_first : chosen_second;
}
long chosen(long x) __attribute__((ifunc("choose")));

// Before and after all else.
static long constructed;
COUNTED(construct);
__attribute__((constructor)) static void construct(void) { ENTER(construct); constructed += 61; }
COUNTED(construct_early);
__attribute__((constructor(101))) static void construct_early(void) { ENTER(construct_early); constructed = constructed * 2 + 1; }
COUNTED(destruct);
__attribute__((destructor)) static void destruct(void) { ENTER(destruct); constructed = 0; }

// Called by nobody.
COUNTED(never_called);
NOINLINE long never_called(long x) { ENTER(never_called); return x; }
COUNTED(empty);
NOINLINE void empty(void) { ENTER(empty); }

COUNTED(linkage);
void linkage(void) {
    ENTER(linkage);
    NOTE(same_name(1)); NOTE(other_file(1)); NOTE(in_header(2)); NOTE(pointers[0](3)); NOTE(pointers[1](3));
    NOTE(overridden(4)); NOTE(weak(4)); NOTE(named(5)); NOTE(other_name(5)); NOTE(hidden(6)); NOTE(protected(6));
    NOTE(renamed(7)); NOTE(dollar$name(7)); NOTE(größe(7)); NOTE(LONG(7));
    NOTE(in_section(8)); NOTE(hot(8)); NOTE(cold(8));
    NOTE(chosen(9)); NOTE(constructed);
    empty();
}
