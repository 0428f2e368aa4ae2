/* Latent probes in C and C++: points that are placed by hand.
 *
 *     #define PROBE_PROVIDER "mylib"        (optional, before the include: the paths' first part)
 *     #include <probe.h>
 *
 *     int parse(const char *text, size_t len) {
 *         PROBE("begin");                   point  mylib::begin
 *         PROBE_U64("parsed", len);         point  mylib::parsed, field `value`
 *         ...
 *     }
 *
 * A probe does nothing until a consumer of the crate `probe-runtime`, in the same process, is
 * attached to it. `select("mylib::*")` finds it beside the Rust probes, and lists it with the file
 * and line of the macro.
 *
 *     PROBE(name)                           no field
 *     PROBE_U64(name, value)                an unsigned integer of up to 64 bits
 *     PROBE_I64(name, value)                a signed integer of up to 64 bits
 *     PROBE_F64(name, value)                a float or double
 *     PROBE_STR(name, string)               a string that ends with a NUL; may be null
 *     PROBE_BYTES(name, address, length)    bytes
 *     PROBE_1(name, kind, field, value)     a value with a name for its field
 *     PROBE_2(name, kind, field, value, kind, field, value)
 *                                           two fields; the kinds are U64, I64, F64 and STR
 *
 * A string may be in any encoding. A named field: PROBE_1("parsed", U64, "bytes", len). Each macro
 * is an expression of type void, for use inside a function. Names are string literals;
 * they may contain `::`.
 *
 * Cost while latent: one 5-byte NOP, and at most 4 bytes of padding before it. The values are
 * computed in a cold block, which only an active site jumps to. There are second-order costs: the
 * compiler assumes that flags do not survive a site, and neither unrolls nor vectorises a loop with
 * a site in it; clang also keeps variables in memory up to date there.
 *
 * While active, a hit resembles a signal for the code around it: registers, the red zone and the
 * stack are preserved, and a consumer sees and changes the program's memory as a signal handler
 * does. It reads the contents of strings and bytes from that memory.
 *
 * The header works with gcc (5 or later) and clang (12 or later) for x86-64 Linux, and GNU as 2.35
 * or later, or clang's own assembler; in C89 and C++98 and all later versions; in inlined functions
 * and templates, whose copies are sites of one probe; with -flto and -masm=intel. On other targets
 * and compilers, and with PROBE_OFF defined, the macros are checked and do nothing. PROBE_ENABLED
 * is 1 or 0 accordingly.
 *
 * Limits: a name, and the file's path, can't contain `"`, `\`, `%`, `{`, `|`, `}` or `@`: the
 * compiler, assembler or linker reports an error. For such a path, define PROBE_FILE as another
 * one. The macros can't be used in constexpr functions before C++20.
 */
#ifndef PROBE_H
#define PROBE_H

#ifndef PROBE_FILE
#define PROBE_FILE __FILE__
#endif

#ifdef PROBE_PROVIDER
#define PROBE_PATH_(name) PROBE_PROVIDER "::" name
#else
#define PROBE_PATH_(name) "" name
#endif

#if defined(PROBE_OFF) || !defined(__x86_64__) || !defined(__LP64__) || !defined(__linux__) || !defined(__ELF__)
#define PROBE_ENABLED 0
#elif defined(__INTEL_COMPILER) || defined(__TINYC__) || defined(__NVCOMPILER) || defined(__CUDA_ARCH__)
#define PROBE_ENABLED 0 /* claim to be gcc, but may not support this code */
#elif defined(__clang__)
#define PROBE_ENABLED (__clang_major__ >= 12)
#elif defined(__GNUC__)
#define PROBE_ENABLED (__GNUC__ >= 5)
#else
#define PROBE_ENABLED 0
#endif

/* For each type of value (docs/abi.md): its number, its conversion, and whether the hit reads the
 * program's memory. */
#define PROBE_TYPE_U64_ "1"
#define PROBE_TYPE_I64_ "2"
#define PROBE_TYPE_F64_ "5"
#define PROBE_TYPE_BYTES_ "9"
#define PROBE_TYPE_STR_ "11"

#ifdef __cplusplus
#define PROBE_CAST_(type, value) static_cast<type>(value)
#else
#define PROBE_CAST_(type, value) ((type)(value))
#endif

/* A string or the address of bytes converts implicitly, like an argument, without a cast. */
#define PROBE_WORD_U64_(value) PROBE_CAST_(unsigned long, value)
#define PROBE_WORD_I64_(value) PROBE_CAST_(long, value)
#define PROBE_WORD_F64_(value) PROBE_CAST_(double, value)
#define PROBE_WORD_STR_(value) (1 ? (value) : PROBE_CAST_(const char *, 0))
#define PROBE_WORD_BYTES_(value) (1 ? (value) : PROBE_CAST_(const void *, 0))

#define PROBE_TOUCH_U64_ "cc"
#define PROBE_TOUCH_I64_ "cc"
#define PROBE_TOUCH_F64_ "cc"
#define PROBE_TOUCH_STR_ "memory"
#define PROBE_TOUCH_BYTES_ "memory"

/* A kind is pasted in the first step, before a macro of the user with the same name could replace
 * it. */
#define PROBE(name) PROBE_POINT_0_(name)
#define PROBE_U64(name, value) \
    PROBE_POINT_1_(name, "value", PROBE_TYPE_U64_, PROBE_WORD_U64_(value), 0UL, PROBE_TOUCH_U64_)
#define PROBE_I64(name, value) \
    PROBE_POINT_1_(name, "value", PROBE_TYPE_I64_, PROBE_WORD_I64_(value), 0UL, PROBE_TOUCH_I64_)
#define PROBE_F64(name, value) \
    PROBE_POINT_1_(name, "value", PROBE_TYPE_F64_, PROBE_WORD_F64_(value), 0UL, PROBE_TOUCH_F64_)
#define PROBE_STR(name, string) \
    PROBE_POINT_1_(name, "value", PROBE_TYPE_STR_, PROBE_WORD_STR_(string), 0UL, PROBE_TOUCH_STR_)
#define PROBE_BYTES(name, address, length)                                                        \
    PROBE_POINT_1_(name, "value", PROBE_TYPE_BYTES_, PROBE_WORD_BYTES_(address), PROBE_WORD_U64_(length), \
        PROBE_TOUCH_BYTES_)
#define PROBE_1(name, kind, field, value) \
    PROBE_POINT_1_(name, field, PROBE_TYPE_##kind##_, PROBE_WORD_##kind##_(value), 0UL, PROBE_TOUCH_##kind##_)
#define PROBE_2(name, kind1, field1, value1, kind2, field2, value2)                     \
    PROBE_POINT_2_(name, field1, PROBE_TYPE_##kind1##_, PROBE_WORD_##kind1##_(value1), PROBE_TOUCH_##kind1##_, \
        field2, PROBE_TYPE_##kind2##_, PROBE_WORD_##kind2##_(value2), PROBE_TOUCH_##kind2##_)

#if PROBE_ENABLED

/* gcc estimates the size of inlined code by the lines of its asm, unless the asm is `inline`. */
#if !defined(__clang__) && __GNUC__ >= 9
#define PROBE_ASM_ __asm__ __inline__
#else
#define PROBE_ASM_ __asm__
#endif

/* clang treats the target of an asm's jump as cold without the attribute. */
#ifdef __clang__
#define PROBE_COLD_
#else
#define PROBE_COLD_ __attribute__((__cold__))
#endif

#define PROBE_STRING_(tokens) PROBE_STRING_OF_(tokens)
#define PROBE_STRING_OF_(tokens) #tokens

/* The identity of a probe. The symbols of its stub and definition end with it, so that the linker
 * merges all copies. */
#define PROBE_KEY_(name, fields) PROBE_PATH_(name) ":" PROBE_FILE ":" PROBE_STRING_(__LINE__) ":" fields
#define PROBE_STUB_(key) "\"__probe_stub:" key "\""
#define PROBE_DEFINITION_(key) "\"__probe_definition:" key "\""

/* The site: a NOP in one aligned word, and its record, linked to the section (and in the group) of
 * its code. At least one byte of padding precedes it, so that it is never a function's first
 * instruction: tracers put their breakpoints there. */
#define PROBE_SITE_(key)                                                       \
    PROBE_ASM_ goto(".Lpoint_ahead_%=: .p2align 3, , 5\n"                       \
                    ".Lpoint_one_%=: .skip !(.Lpoint_one_%= - .Lpoint_ahead_%=), 0x90\n" \
                    ".Lpoint_%=: {nopl 8(%%rax,%%rax,1)|nop DWORD PTR [rax + rax + 8]}\n\t"   \
                    ".pushsection probe_sites, \"ao?\", @progbits, .Lpoint_%=\n\t" \
                    ".p2align 2\n\t"                                            \
                    ".byte 1, 16, 1, 0\n\t"                                     \
                    ".long .Lpoint_%= - ., %l[probe_cold_] - ., " PROBE_STUB_(key) " - .\n\t" \
                    ".popsection"                                               \
                    : : : : probe_cold_)

/* The note that refers to the tables, once for each assembler run. */
#define PROBE_NOTE_                                                                         \
    ".ifndef .Lpoint_note\n"                                                                \
    ".set .Lpoint_note, 1\n\t"                                                              \
    ".weak __start_probe_sites, __stop_probe_sites\n\t"                                     \
    ".hidden __start_probe_sites, __stop_probe_sites\n\t"                                   \
    ".weak __start_linkme_PROBE_DEFINITIONS_V1, __stop_linkme_PROBE_DEFINITIONS_V1\n\t"     \
    ".hidden __start_linkme_PROBE_DEFINITIONS_V1, __stop_linkme_PROBE_DEFINITIONS_V1\n\t"   \
    ".pushsection .note.latent_probe, \"a\", @note\n\t"                                     \
    ".p2align 2\n\t"                                                                        \
    ".long 12, 32, 1\n\t"                                                                   \
    ".asciz \"LatentProbe\"\n\t"                                                            \
    ".quad __start_probe_sites - ., __stop_probe_sites - .\n\t"                             \
    ".quad __start_linkme_PROBE_DEFINITIONS_V1 - ., __stop_linkme_PROBE_DEFINITIONS_V1 - .\n\t" \
    ".popsection\n\t"                                                                       \
    ".endif\n\t"

/* Makes the assembler fail if the text contains an escape, and is therefore not as long as the
 * compiler assumes. */
#ifdef __clang__
#define PROBE_CHECK_ \
    ".zero .Lpoint_end_%= - .Lpoint_text_%= - %c[probe_path_] - %c[probe_file_] - %c[probe_names_] - %c[probe_notes_]\n\t"
#else
#define PROBE_CHECK_                                                                       \
    ".if .Lpoint_end_%= - .Lpoint_text_%= - %c[probe_path_] - %c[probe_file_] - %c[probe_names_] - %c[probe_notes_]\n\t" \
    ".error \"probe.h: what a probe's name or file holds is not allowed there (see the limits)\"\n\t" \
    ".endif\n\t"
#endif

/* The stub and the definition, in one group, once for each probe. A long text is in a separate
 * section. */
#define PROBE_PROBE_(key, name, count, names, notes)                                       \
    ".ifndef " PROBE_STUB_(key) "\n\t"                                                     \
    ".pushsection .text.unlikely.__probe_stub, \"axG\", @progbits, " PROBE_DEFINITION_(key) ", comdat\n\t" \
    ".weak " PROBE_STUB_(key) "\n\t"                                                       \
    ".hidden " PROBE_STUB_(key) "\n\t"                                                     \
    ".type " PROBE_STUB_(key) ", @function\n"                                              \
    PROBE_STUB_(key) ":\n\t"                                                               \
    ".byte 0x57, 0x48, 0x8d, 0x3d\n\t" /* push rdi; lea rdi, [rip + definition] */         \
    ".long " PROBE_DEFINITION_(key) " - . - 4\n\t"                                         \
    ".byte 0xff, 0x27\n\t" /* jmp [rdi] */                                                 \
    ".size " PROBE_STUB_(key) ", 10\n\t"                                                   \
    ".popsection\n\t"                                                                      \
    ".pushsection linkme_PROBE_DEFINITIONS_V1, \"awG\", @progbits, " PROBE_DEFINITION_(key) ", comdat\n\t" \
    ".p2align 6\n\t"                                                                       \
    ".weak " PROBE_DEFINITION_(key) "\n\t"                                                 \
    ".hidden " PROBE_DEFINITION_(key) "\n\t"                                               \
    ".type " PROBE_DEFINITION_(key) ", @object\n"                                          \
    PROBE_DEFINITION_(key) ":\n\t"                                                         \
    ".quad 0, 0\n\t"                 /* entry, hook */                                     \
    ".short 1, 192\n\t"              /* version, size */                                   \
    ".byte 0, " count "\n\t"         /* a point; number of fields */                       \
    ".short 3\n\t"                   /* a cold block; all registers are kept */                \
    ".long " PROBE_STRING_(__LINE__) ", 0\n\t"                                             \
    ".short %c[probe_path_], %c[probe_file_], %c[probe_names_], %c[probe_notes_]\n\t"      \
    ".if %c[probe_path_] + %c[probe_file_] + %c[probe_names_] + %c[probe_notes_] > 144\n\t" \
    ".quad .Lpoint_text_%=\n\t"                                                            \
    ".zero 144\n\t"                                                                        \
    ".pushsection .rodata.__probe_text, \"aG\", @progbits, " PROBE_DEFINITION_(key) ", comdat\n" \
    ".else\n\t"                                                                            \
    ".quad 0\n"                                                                            \
    ".endif\n"                                                                             \
    ".Lpoint_text_%=: .ascii \"" PROBE_PATH_(name) PROBE_FILE names notes "\"\n"           \
    ".Lpoint_end_%=:\n\t"                                                                  \
    PROBE_CHECK_                                                                           \
    ".if %c[probe_path_] + %c[probe_file_] + %c[probe_names_] + %c[probe_notes_] > 144\n\t" \
    ".popsection\n\t"                                                                      \
    ".else\n\t"                                                                            \
    ".zero 144 - %c[probe_path_] - %c[probe_file_] - %c[probe_names_] - %c[probe_notes_]\n\t" \
    ".endif\n\t"                                                                           \
    ".size " PROBE_DEFINITION_(key) ", 192\n\t"                                            \
    ".popsection\n\t"                                                                      \
    ".endif\n\t"

/* Lengths in bytes. `names` and `notes` are the lengths of the fields' names and of the notes, each
 * with its line feed. */
#define PROBE_LENGTHS_(name, names, notes)                                                 \
    [probe_path_] "i"(sizeof(PROBE_PATH_(name)) - 1), [probe_file_] "i"(sizeof(PROBE_FILE) - 1), \
        [probe_names_] "i"(names), [probe_notes_] "i"(notes)

/* The note with the fields' types. */
#define PROBE_TYPES_(types) "types=" types

/* One value of three words, at an offset from the stack pointer. */
#define PROBE_VALUE_(type, low, high, at0, at1, at2)                                       \
    "{movq $" type ", " at0 "(%%rsp)|mov QWORD PTR [rsp + " at0 "], " type "}\n\t"         \
    "{movq %[" low "], " at1 "(%%rsp)|mov QWORD PTR [rsp + " at1 "], %[" low "]}\n\t"      \
    "{movq %[" high "], " at2 "(%%rsp)|mov QWORD PTR [rsp + " at2 "], %[" high "]}\n\t"

/* Runs `hit` in the cold block that the site jumps to. */
#if defined(__clang__) && __clang_major__ < 17 && defined(__cplusplus) && __cplusplus >= 201103L
/* This clang assumes that an asm may jump to the labels of any other asm in the function, and
 * rejects that if there are destructors between them. So the site gets a function of its own, which
 * disappears when the code is optimised. */
#define PROBE_WHEN_HIT_(key, hit)                                                          \
    __extension__({                                                                        \
        if (__builtin_expect([]() __attribute__((__always_inline__)) -> bool {             \
                __label__ probe_cold_;                                                     \
                PROBE_SITE_(key);                                                          \
                return false;                                                              \
            probe_cold_:                                                                   \
                return true;                                                               \
            }(), false)) {                                                                 \
            hit;                                                                           \
        }                                                                                  \
    })
#else
#define PROBE_WHEN_HIT_(key, hit)                                                          \
    __extension__({                                                                        \
        __label__ probe_cold_;                                                             \
        PROBE_SITE_(key);                                                                  \
        if (0) {                                                                           \
        probe_cold_:                                                                       \
            PROBE_COLD_;                                                                   \
            hit;                                                                           \
        }                                                                                  \
    })
#endif

#define PROBE_POINT_0_(name)                                                               \
    PROBE_WHEN_HIT_(PROBE_KEY_(name, ""),                                                  \
        PROBE_ASM_ __volatile__(                                                           \
            PROBE_NOTE_ PROBE_PROBE_(PROBE_KEY_(name, ""), name, "0", "", "")              \
            "{addq $-128, %%rsp|add rsp, -128}\n\t"                                        \
            "call " PROBE_STUB_(PROBE_KEY_(name, "")) "\n\t"                               \
            "{subq $-128, %%rsp|sub rsp, -128}"                                            \
            : : PROBE_LENGTHS_(name, 0, 0) : "cc"))

#define PROBE_POINT_1_(name, field, type, low, high, touch)                                \
    PROBE_WHEN_HIT_(PROBE_KEY_(name, field),                                               \
        PROBE_ASM_ __volatile__(                                                           \
            PROBE_NOTE_ PROBE_PROBE_(PROBE_KEY_(name, field), name, "1", field "\\n",      \
                PROBE_TYPES_(type) "\\n")                                                  \
            "{subq $192, %%rsp|sub rsp, 192}\n\t"                                          \
            PROBE_VALUE_(type, "probe_low_", "probe_high_", "0", "8", "16")                \
            "call " PROBE_STUB_(PROBE_KEY_(name, field)) "\n\t"                            \
            "{addq $192, %%rsp|add rsp, 192}"                                              \
            : : PROBE_LENGTHS_(name, sizeof(field), sizeof(PROBE_TYPES_(type))), [probe_low_] "r"(low), [probe_high_] "er"(high) \
            : "cc", touch))

#define PROBE_POINT_2_(name, field1, type1, value1, touch1, field2, type2, value2, touch2) \
    PROBE_WHEN_HIT_(PROBE_KEY_(name, field1 "," field2),                                   \
        PROBE_ASM_ __volatile__(                                                           \
            PROBE_NOTE_ PROBE_PROBE_(PROBE_KEY_(name, field1 "," field2), name, "2",       \
                field1 "\\n" field2 "\\n", PROBE_TYPES_(type1 "," type2) "\\n")            \
            "{subq $192, %%rsp|sub rsp, 192}\n\t"                                          \
            PROBE_VALUE_(type1, "probe_value1_", "probe_zero_", "0", "8", "16")            \
            PROBE_VALUE_(type2, "probe_value2_", "probe_zero_", "24", "32", "40")          \
            "call " PROBE_STUB_(PROBE_KEY_(name, field1 "," field2)) "\n\t"                \
            "{addq $192, %%rsp|add rsp, 192}"                                              \
            : : PROBE_LENGTHS_(name, sizeof(field1) + sizeof(field2),                      \
                    sizeof(PROBE_TYPES_(type1 "," type2))),                                \
                [probe_value1_] "r"(value1), [probe_value2_] "r"(value2), [probe_zero_] "i"(0) \
            : "cc", touch1, touch2))

#else

/* Checked and used, but not evaluated. */
#define PROBE_POINT_0_(name) PROBE_CAST_(void, sizeof(PROBE_PATH_(name)))
#define PROBE_POINT_1_(name, field, type, low, high, touch) PROBE_UNUSED_(name field, low, high)
#define PROBE_POINT_2_(name, field1, type1, value1, touch1, field2, type2, value2, touch2) \
    PROBE_UNUSED_(name field1 field2, value1, value2)
#define PROBE_UNUSED_(text, value1, value2)                                                \
    PROBE_CAST_(void,                                                                      \
        (0 ? (PROBE_CAST_(void, value1), PROBE_CAST_(void, value2), sizeof(PROBE_PATH_(text))) : 0))

#endif /* PROBE_ENABLED */

#endif /* PROBE_H */
