//! Assembly that saves a register on the stack and restores it, and says both to unwinders.

/// Pushes a register. `$size` is the frame's size afterwards, as unwinders count it: the assembler
/// doesn't count from a restored state.
macro_rules! push {
    ($register:literal, $size:literal) => {
        concat!(
            "push ", $register, "\n.cfi_def_cfa_offset ", $size, "\n.cfi_offset ", $register, ", -", $size,
            "\n"
        )
    };
}

/// Pops a register. `$size` is the frame's size afterwards.
macro_rules! pop {
    ($register:literal, $size:literal) => {
        concat!("pop ", $register, "\n.cfi_def_cfa_offset ", $size, "\n.cfi_restore ", $register, "\n")
    };
}

/// Returns to the cold block, from a frame with the three registers that each way in saves.
macro_rules! leave {
    () => {
        concat!(pop!("rcx", 24), pop!("rax", 16), pop!("rdi", 8), "ret\n")
    };
}

pub(super) use {leave, pop, push};
