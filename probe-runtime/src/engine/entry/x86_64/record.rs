//! The part of the way in that records a hit without calling its consumer (`dispatch::listener`).
//!
//! ```text
//! here from [`enter`](super::enter)   rax = the slot, marked as entered; rdi = &Definition; rdi,
//!                                     rax and rcx are on the stack, and rcx is free
//! ```
//! It reads the hook again, since no register was free to keep it. That may be another one by now,
//! of a probe with other consumers; then, and whenever the consumer has more to do than to store a
//! word, the hit continues at 5, where the consumer is called.
//!
//! Nothing is stored in the ring before the last check, and a record's first word after its others:
//! a ring may lie in a file, where the first word that is zero ends it.
//!
//! A signal may arrive between any two instructions. Until the mark is the consumer's, its
//! handler's hits are recorded before this one; from then on they are suppressed. The clock is read
//! with the mark set, so times are in the order of the records.
//!
//! The handler's hits may also be in another consumer meanwhile, so that a detach does not wait for
//! this one. Hence the blocked flags are read between the mark and the ring's address. A handler
//! may fork, too, and the child may find the ring's head wiped
//! ([`mapped`](crate::engine::os::mapped_file)). Hence the origin is read before the check of room:
//! a wiped head has none.
//!
//! Cost: 75 instructions from the site and back; 16 for each field, and some 30 for the first.

/// The assembly of it, for hits without and with fields, and for hits of C code without fields,
/// which have their stack pointer in the record. Its operands are those of
/// [`enter`](super::enter)'s assembly.
macro_rules! record {
    (without_fields) => {
        record!(
            [],
            [
                "mov rsi, [rcx + {origin}]\n", // before the check of room
                "mov rdx, [rcx + {position}]\n",
                "cmp rdx, [rcx + {end}]\n",
                "jae 9f\n", // no room
                "mov [rsi + 8 * rdx], rax\n",
                "inc rdx\n",
                "mov [rcx + {position}], rdx\n",
            ],
            []
        )
    };
    // One word more: the stack pointer at the site, above the registers that were pushed and the
    // return address.
    (with_stack_pointer) => {
        record!(
            [],
            [
                "cmp byte ptr [rdi + {field_count}], 0\n",
                "jne 9f\n",
                "mov rsi, [rcx + {origin}]\n", // before the check of room
                "mov rdx, [rcx + {position}]\n",
                "inc rdx\n",
                "cmp rdx, [rcx + {end}]\n",
                "jae 9f\n", // no room
                "bts rax, {payload_shift}\n",
                "lea rdi, [rsp + 48]\n", // the definition is not needed any more
                "mov [rsi + 8 * rdx], rdi\n",
                "mov [rsi + 8 * rdx - 8], rax\n",
                "inc rdx\n",
                "mov [rcx + {position}], rdx\n",
            ],
            []
        )
    };
    // The values lie above the registers that were pushed, or their address does (`values`).
    (with_fields) => {
        record!(
            [
                push!("r8", 56),
                push!("r9", 64),
                push!("r10", 72),
            ],
            [
                "movzx esi, byte ptr [rdi + {field_count}]\n",
                "inc esi\n", // the payload: a word of types, and a word for each field
                "cmp esi, 9\n",
                "ja 9f\n", // more words of types
                "mov r8, rsi\n",
                "shl r8, {payload_shift}\n",
                "or rax, r8\n",
                "mov r9, [rcx + {origin}]\n", // before the check of room
                "mov rdx, [rcx + {position}]\n",
                "lea r8, [rdx + rsi]\n",
                "cmp r8, [rcx + {end}]\n",
                "jae 9f\n", // no room
                "lea r9, [r9 + 8 * rdx]\n",
                "lea rdx, [rsp + 72]\n",
                "cmp esi, {inline_values} + 1\n",
                "jbe 22f\n",
                "mov rdx, [rdx + {values_at}]\n",
                "22:\n", // from the last to the first
                "lea r8, [rsi + 2 * rsi]\n",
                "lea rdx, [rdx + 8 * r8 - 48]\n",
                "xor r8d, r8d\n",
                "23:\n",
                "mov r10, [rdx]\n",
                "dec r10\n",
                "cmp r10, 2\n",
                "jb 24f\n",
                "cmp r10, 4\n",
                "jb 9f\n", // more than a word
                "cmp r10, 6\n",
                "ja 9f\n", // not a number, a truth value or a character
                "24:\n",
                "shl r8, 8\n",
                "lea r8, [r8 + r10 + 1]\n",
                "sub rdx, 24\n",
                "dec esi\n",
                "cmp esi, 1\n",
                "jne 23b\n",
                "mov [r9 + 8], r8\n",
                "25:\n", // from the first to the last
                "add rdx, 24\n",
                "mov r10, [rdx + 8]\n",
                "mov [r9 + 8 * rsi + 8], r10\n",
                "inc esi\n",
                "cmp sil, byte ptr [rdi + {field_count}]\n",
                "jbe 25b\n",
                "mov [r9], rax\n",
                "inc esi\n",
                "add [rcx + {position}], rsi\n",
            ],
            [
                pop!("r10", 64),
                pop!("r9", 56),
                pop!("r8", 48),
            ]
        )
    };
    ([$($push:expr,)*], [$($store:literal,)*], [$($pop:expr,)*]) => {
        concat!(
            "8:\n",
            push!("rdx", 40),
            push!("rsi", 48),
            $($push,)*
            "mov rdx, [rdi + 8]\n",
            "test rdx, rdx\n",
            "jz 9f\n", // detached meanwhile
            "mov rcx, [rdx]\n",
            "neg rcx\n",
            "cmp rcx, 2\n",
            "jl 9f\n",               // another hook, whose hits are not recorded
            "mov rsi, [rdx + 16]\n", // the subscription
            "mov [rax], rsi\n",      // in its consumer
            "cmp dword ptr [rsi + 4], 0\n",
            "jne 9f\n", // disabled: its memory may be gone
            "mov rcx, [rax + rcx]\n",
            "cmp rcx, 1\n",
            "jbe 9f\n", // no memory yet
            "mov rsi, [rsi]\n",
            "cmp rsi, [rcx + {generation}]\n",
            "jne 9f\n", // another generation, or the consumer was disabled
            "mov rsi, [rax + {slot_thread}]\n",
            "cmp rsi, [rcx + {thread}]\n",
            "jne 9f\n", // memory of an earlier thread
            "mov esi, [rdx + {probe}]\n",
            "inc esi\n", // never 0
            "shl rsi, {probe_shift}\n",
            "rdtsc\n",
            "shl rdx, 32\n",
            "or rax, rdx\n",
            "sub rax, [rcx + {base}]\n",
            "mov edx, eax\n",
            "cmp rdx, rax\n",
            "jne 9f\n", // does not fit in 32 bits
            "or rax, rsi\n",
            $($store,)*
            "inc qword ptr [rcx + {written}]\n",
            "mov rax, [rip + {enter}.slot@GOTTPOFF]\n",
            "mov rax, fs:[rax]\n",
            "inc qword ptr [rax + 8]\n",
            "mov qword ptr [rax], 0\n",
            ".cfi_remember_state\n",
            $($pop,)*
            pop!("rsi", 40),
            pop!("rdx", 32),
            leave!(),
            ".cfi_restore_state\n",
            "9:\n", // call the consumer
            "mov rax, [rip + {enter}.slot@GOTTPOFF]\n",
            "mov rax, fs:[rax]\n",
            "inc qword ptr [rax + 16]\n", // the call has ended
            "mov qword ptr [rax], 1\n",
            $($pop,)*
            pop!("rsi", 40),
            pop!("rdx", 32),
            "jmp 5f\n",
        )
    };
}

pub(super) use record;
