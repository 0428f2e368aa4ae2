//! One site in Rust code: a NOP5 that is patched to a JMP into a cold block.
//!
//! ```text
//!           latent                          active
//!   a NOP of 1 to 5 bytes           a NOP of 1 to 5 bytes
//!   0f 1f 44 00 08   nopl 8(…)      e9 rel32   jmp cold
//!   …                               …
//!   cold:  add rsp, -128            (laid out by the compiler, out of the way)
//!          call stub
//!          sub rsp, -128
//!          jmp back
//!   stub:  push rdi
//!          lea rdi, [rip + DEFINITION]
//!          jmp [rdi]
//! ```
//!
//! - Not a CALL at the site: in Rust code its return address would overwrite the red zone of a leaf
//!   function. The cold block itself steps over the red zone, so the compiler need not keep it
//!   free, and a leaf function needs no frame. An unwinder that walks through a hit finds the stack
//!   pointer as it was before that step (the unwind tables of `enter` say so). Only a signal that
//!   interrupts the cold block between its `add` and its `call`, or after the call, sees frames
//!   that are off by the step.
//! - At least one byte stands ahead of each site, so that no site begins at a function's first
//!   byte. Tracers put their breakpoints there, and when the kernel's uprobes are removed, they
//!   write back the bytes of the file. `.p2align 3, …, 5` pads from the offsets 3 to 7 of a word to
//!   the next word. At the offsets 0 to 2 it pads nothing, and `.skip` adds a byte. In both cases
//!   the site's five bytes lie in one aligned word, which has no room for a second site.
//! - These bytes are one NOP, a separate instruction for the tracer. An asm can't know whether it
//!   comes first in its function, and functions that are compiled for size begin at any address. So
//!   all sites have the NOP, except for the guards' exits: those come after an entry, or in the
//!   drop glue of the guard, which no tracer traces. Their bytes are CS prefixes of the site's own
//!   instruction, which don't change it (Intel SDM 2A, 2.1.1 and "JMP"). They never change either,
//!   so a thread that fetches the instruction from two words still sees the old or the new one.
//!   This saves an instruction at each exit: a script interpreter with a probe in each function
//!   executes 1.21 of its instructions, where NOPs at exits made it 1.24.
//! - The NOP has the displacement 8. The NOPs of compilers and of the kernel have 0, so no other
//!   tool takes it for its own.
//! - All general registers but `r11` survive a hit: another one that did not would cost a copy on
//!   the hot path. `r11` is the counting block's. The cold block clobbers vector
//!   registers, so the compiler spills live ones there and nowhere else.
//! - Sites refer to the stub, one per probe, and not to the definition. A reference to a *function*
//!   links in every kind of output, even from a generic function that another shared object
//!   instantiates. A reference to data would need a copy relocation or fail to link there.

// Safety: relies on a NOP having no effect, and on each macro being used only at the place that its
// comment states.
#![expect(unsafe_code, reason = "see above")]

use core::marker::PhantomData;

mod call;
#[cfg(feature = "usdt")]
mod usdt;

pub use call::{Stub, Typed, call, call_failed, call_with_all, call_with_one, call_with_two};
#[cfg(feature = "usdt")]
pub use usdt::{Usdt, UsdtExit, usdt_note0, usdt_note1, usdt_note2, usdt_note3, usdt_note4};

use call::call_stub;

/// The definition and stub of a probe.
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_define {
    ($kind:ident, $probe:tt; $($field:literal),*) => {
        $crate::__private::v1::definition! { $kind, $probe; $($field),* }
        $crate::__private::v1::stub! { __Probe, "lea rdi, [rip + {definition}]" }
    };
}

/// The stub of a probe, which the type `$name` represents.
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_stub {
    ($name:ident, $definition:literal) => {
        enum $name {}
        impl $crate::__private::v1::Stub for $name {
            #[unsafe(naked)]
            extern "C" fn stub() {
                $crate::__private::v1::naked_asm!(
                    // rustc exports the definition from a `dylib`, but only the stub refers to it.
                    ".hidden {definition}",
                    "push rdi",
                    $definition,
                    "jmp [rdi]",
                    definition = sym __PROBE_DEFINITION,
                )
            }
        }
    };
}

/// The sites of an entry and an exit without fields. Their definitions are one static: a static
/// takes more compile time than everything else here. Nor does it call other macros, as `define!`
/// does: each expansion of one takes a tenth of the rest. `function!` says what `$line` is.
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_entry_and_exit {
    (($name:literal, $notes:literal)) => {
        $crate::__private::v1::entry_and_exit! {
            ($name, $notes, $crate::__private::v1::line!(), $crate::__private::v1::column!())
        }
    };
    (($name:literal, $notes:literal, $line:expr, $column:expr)) => {
        let __probe_exit = {
            // SAFETY: the section holds definitions only (docs/abi.md), and these are two.
            #[used]
            #[unsafe(link_section = "linkme_PROBE_DEFINITIONS_V1")]
            static __PROBE_DEFINITION: [$crate::__private::v1::Definition; 2] =
                $crate::__private::v1::Definition::entry_and_exit(
                    $crate::__private::v1::concat!(
                        $crate::__private::v1::module_path!(), "::", $name,
                        $crate::__private::v1::file!(),
                        $notes,
                    ),
                    $crate::__private::v1::file!(),
                    $notes,
                    $line,
                    $column,
                );
            enum __Entry {}
            impl $crate::__private::v1::Stub for __Entry {
                #[unsafe(naked)]
                extern "C" fn stub() {
                    $crate::__private::v1::naked_asm!(
                        // As in `stub!`.
                        ".hidden {definition}",
                        "push rdi",
                        "lea rdi, [rip + {definition}]",
                        "jmp [rdi]",
                        definition = sym __PROBE_DEFINITION,
                    )
                }
            }
            enum __Exit {}
            impl $crate::__private::v1::Stub for __Exit {
                #[unsafe(naked)]
                extern "C" fn stub() {
                    $crate::__private::v1::naked_asm!(
                        ".hidden {definition}",
                        "push rdi",
                        "lea rdi, [rip + {definition} + 192]",
                        "jmp [rdi]",
                        definition = sym __PROBE_DEFINITION,
                    )
                }
            }
            $crate::__private::v1::enter::<__Entry, __Exit>()
        };
    };
}

/// The guard of an exit.
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_exit {
    ($probe:tt) => {
        let __probe_exit = {
            $crate::__private::v1::define! { Exit, $probe; }
            $crate::__private::v1::Exit::<__Probe>($crate::__private::v1::PhantomData)
        };
    };
}

/// One site of the probe that was defined in a surrounding block.
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_place {
    // A function of the runtime, whose code the compiler reads only once.
    ([]) => {
        $crate::__private::v1::bare::<__Probe>()
    };
    ($($captures:tt)*) => {
        $crate::__private::v1::active! { { $crate::__private::v1::capture! { $($captures)* } } }
    };
}

/// The site itself, and its cold block.
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_active {
    // `$ahead` is the byte ahead of the site where alignment leaves none. A second number is the
    // byte with which alignment pads; NOPs as long as possible by default.
    ($ahead:literal, $cold:block) => {
        // SAFETY: a NOP has no effect on registers or memory. Patched to a JMP, it goes to the cold
        // block, which is declared as a label and states its own effects, or to a counting block,
        // which changes `r11` and the flags alone.
        unsafe {
            $crate::__private::v1::asm!(
                // Once per assembler context: the note that finds the tables, and the macro for a
                // site. `\@` restarts in every asm block, so a counter makes the labels unique; a
                // numeric label is refused as the linked-to symbol of an "o" section.
                ".ifndef .Lprobe_v1_n",
                ".set .Lprobe_v1_n, 0",
                ".weak __start_probe_sites, __stop_probe_sites",
                ".hidden __start_probe_sites, __stop_probe_sites",
                ".weak __start_linkme_PROBE_DEFINITIONS_V1, __stop_linkme_PROBE_DEFINITIONS_V1",
                ".hidden __start_linkme_PROBE_DEFINITIONS_V1, __stop_linkme_PROBE_DEFINITIONS_V1",
                ".pushsection .note.latent_probe, \"a\", @note",
                ".p2align 2",
                ".long 12, 32, 1",
                ".asciz \"LatentProbe\"",
                ".quad __start_probe_sites - ., __stop_probe_sites - .",
                ".quad __start_linkme_PROBE_DEFINITIONS_V1 - ., __stop_linkme_PROBE_DEFINITIONS_V1 - .",
                ".popsection",
                ".macro probe_v1_site n, cold, stub, ahead, fill",
                "2: .p2align 3, \\fill, 5",
                "3: .skip !(3b - 2b), \\ahead",
                ".Lprobe_v1_site_\\n\\(): .byte 0x0f, 0x1f, 0x44, 0x00, 0x08",
                ".pushsection probe_sites, \"ao\", @progbits, .Lprobe_v1_site_\\n",
                ".p2align 2",
                ".byte 1, 16, 1, 0",
                ".long .Lprobe_v1_site_\\n - ., \\cold - ., \\stub@PLT - .",
                ".popsection",
                ".endm",
                ".endif",
                ".set .Lprobe_v1_n, .Lprobe_v1_n + 1",
                ".altmacro",
                $crate::__private::v1::concat!("probe_v1_site %.Lprobe_v1_n, {cold}, {stub}, ", $ahead),
                ".noaltmacro",
                stub = sym <__Probe as $crate::__private::v1::Stub>::stub,
                cold = label $cold,
                out("r11") _,
                options(nomem, nostack),
            )
        }
    };
    ($cold:block) => {
        $crate::__private::v1::active! { "0x90", $cold }
    };
}

/// The rest of the cold block: the fields' values, and the call of the stub.
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_deliver {
    ([$($done:tt)*]) => {{
        // SAFETY: a cold block.
        unsafe { $crate::__private::v1::call::<__Probe>() }
        $($done)*
    }};
    // `match`, so that temporaries in the expressions outlive the call.
    ([$($done:tt)*] $field:literal = $how:ident($value:expr)) => {
        match $crate::__private::v1::passed!(0, InRegisters, $how, $value) {
            __probe_value => {
                // SAFETY: a cold block, and the one field's value.
                unsafe { $crate::__private::v1::call_with_one::<__Probe>(__probe_value) }
                $($done)*
            }
        }
    };
    (
        [$($done:tt)*]
        $field1:literal = $how1:ident($value1:expr), $field2:literal = $how2:ident($value2:expr)
    ) => {
        match (
            $crate::__private::v1::passed!(0, InRegisters, $how1, $value1),
            $crate::__private::v1::passed!(1, InRegisters, $how2, $value2),
        ) {
            (__probe_value1, __probe_value2) => {
                // SAFETY: a cold block, and the two fields' values.
                unsafe { $crate::__private::v1::call_with_two::<__Probe>(__probe_value1, __probe_value2) }
                $($done)*
            }
        }
    };
    ([$($done:tt)*] $($field:literal = $how:ident($value:expr)),+) => {{
        const __PROBE_FIELDS: &$crate::__private::v1::str = $crate::__private::v1::concat!($($field, "\n"),+);
        match [$($crate::__private::v1::passed!(
            { $crate::__private::v1::field_index(__PROBE_FIELDS, $field) }, InMemory, $how, $value
        )),+] {
            __probe_values => {
                // SAFETY: a cold block, and all fields' values.
                unsafe { $crate::__private::v1::call_with_all::<__Probe>(&__probe_values) }
                $($done)*
            }
        }
    }};
}

/// The value of the field with this index, by a passage that also says its type.
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_passed {
    ($index:tt, $passage:ident, $how:ident, $value:expr) => {
        $crate::__private::v1::pass!(
            $crate::__private::v1::Typed<__Probe, $crate::__private::v1::$passage, $index>, $how, $value
        )
    };
}

/// The hit of a site in which a field panicked.
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_deliver_failed {
    () => {
        // SAFETY: a cold block.
        unsafe { $crate::__private::v1::call_failed(<__Probe as $crate::__private::v1::Stub>::stub) }
    };
}

/// A site without fields, in one piece: each function that is instantiated per probe takes compile
/// time.
macro_rules! bare {
    ($ahead:literal) => {
        active! {
            $ahead,
            // SAFETY: a cold block.
            { unsafe { call_stub!([sym __Probe::stub], ["add rsp, -128"], ["sub rsp, -128"], []) } }
        }
    };
}

/// A site without fields.
#[inline(always)]
pub fn bare<__Probe: Stub>() {
    bare!("0x90");
}

/// The site of an entry, and the guard of its exit.
#[inline(always)]
pub fn enter<__Probe: Stub, __Exit: Stub>() -> Exit<__Exit> {
    bare!("0x90");
    Exit(PhantomData)
}

/// The guard whose drop is the site of an exit.
#[derive(Debug)]
pub struct Exit<__Probe: Stub>(pub PhantomData<__Probe>);

impl<__Probe: Stub> Drop for Exit<__Probe> {
    #[inline(always)]
    fn drop(&mut self) {
        bare!("0x2e, 0x2e");
    }
}

pub use crate::{
    __probe_v1_active as active, __probe_v1_define as define, __probe_v1_deliver as deliver,
    __probe_v1_deliver_failed as deliver_failed, __probe_v1_entry_and_exit as entry_and_exit,
    __probe_v1_exit as exit, __probe_v1_passed as passed, __probe_v1_place as place, __probe_v1_stub as stub,
};
