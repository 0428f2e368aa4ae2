//! Finds the instructions that each call of a function executes exactly once. Pure.

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction};

/// Returns the addresses of instructions that each call of the function executes exactly once, in
/// order: those of its beginning, up to the first branch, call or return, and ahead of any place
/// that a jump of the function leads back to. A place that was inlined behind a condition, or into
/// a loop, is not among them.
///
/// Returns nothing for a function with an invalid instruction, or with a jump to a computed
/// address. A tail call through a pointer at a fixed address does not count as such a jump.
///
/// Jumps from other functions are ignored. A part that a compiler has moved away (`.cold`) is
/// another function here, so a loop through it goes unnoticed.
///
/// ```
/// use probe_cli::elf::passed_once;
/// let code = [0x55, 0x0f, 0x1f, 0x44, 0x00, 0x08, 0xc3]; // push rbp; nop; ret
/// assert_eq!(passed_once(&code, 0x1000), [0x1000, 0x1001, 0x1006]);
/// let loops = [0x55, 0x0f, 0x1f, 0x44, 0x00, 0x08, 0xeb, 0xf9]; // push rbp; nop; jmp to the nop
/// assert_eq!(passed_once(&loops, 0x1000), [0x1000]);
/// ```
pub fn passed_once(code: &[u8], start: u64) -> Vec<u64> {
    let mut passed = Vec::new();
    let mut is_straight = true;
    let mut lowest = u64::MAX;
    for instruction in Decoder::with_ip(64, code, start, DecoderOptions::NONE) {
        if instruction.is_invalid() || is_computed_jump(&instruction) {
            return Vec::new();
        }
        if is_straight {
            passed.push(instruction.ip());
            is_straight = instruction.flow_control() == FlowControl::Next;
        }
        // Zero without a target. To a tracer of the function, a jump to its beginning is a call.
        let target = instruction.near_branch_target();
        if target > start {
            lowest = lowest.min(target);
        }
    }
    passed.truncate(passed.partition_point(|at| *at < lowest));
    passed
}

fn is_computed_jump(instruction: &Instruction) -> bool {
    instruction.flow_control() == FlowControl::IndirectBranch && !instruction.is_ip_rel_memory_operand()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOP: [u8; 5] = [0x0f, 0x1f, 0x44, 0x00, 0x08];

    /// Returns whether each call passes the NOP between these instructions once.
    fn at(ahead: &[u8], behind: &[u8]) -> bool {
        let code = [ahead, &NOP, behind].concat();
        passed_once(&code, 0x1000).contains(&(0x1000 + ahead.len() as u64))
    }

    #[test]
    fn a_straight_way_passes_it() {
        // push rbp; sub rsp, 8 | ret
        assert!(at(&[0x55, 0x48, 0x83, 0xec, 0x08], &[0xc3]));
        // nop | jmp to the beginning
        assert!(at(&[0x90], &[0xeb, 0xf8]));
        // nop | jmp behind the place
        assert!(at(&[0x90], &[0x90, 0xeb, 0xfd]));
    }

    #[test]
    fn conditions_calls_and_loops_do_not() {
        // test edi, edi; je + 5 | ret
        assert!(!at(&[0x85, 0xff, 0x74, 0x05], &[0xc3]));
        // call | ret
        assert!(!at(&[0xe8, 0, 0, 0, 0], &[0xc3]));
        // nop | jmp to the place
        assert!(!at(&[0x90], &[0xeb, 0xf9]));
        // nop; nop | jne to the second one
        assert!(!at(&[0x90, 0x90], &[0x75, 0xf8]));
    }

    /// A jump table and a computed `goto` may lead back.
    #[test]
    fn of_computed_jumps_nothing_is_known() {
        // jmp rax
        assert!(!at(&[0x90], &[0xff, 0xe0]));
        // jmp [rax + 8 * rcx]
        assert!(!at(&[0x90], &[0xff, 0x24, 0xc8]));
        // notrack jmp rax
        assert!(!at(&[0x90], &[0x3e, 0xff, 0xe0]));
    }

    /// A tail call through the table of other objects' functions.
    #[test]
    fn a_tail_call_by_a_pointer_leads_away() {
        // jmp [rip + 0x1000]
        assert!(at(&[0x90], &[0xff, 0x25, 0, 0x10, 0, 0]));
        // call rax; ret
        assert!(at(&[0x90], &[0xff, 0xd0, 0xc3]));
    }

    #[test]
    fn of_bytes_that_are_no_instruction_nothing_is_known() {
        // ret; an invalid opcode
        assert!(!at(&[0x90], &[0xc3, 0x06]));
        // ret; the beginning of a jmp
        assert!(!at(&[0x90], &[0xc3, 0xe9, 0]));
    }

    #[test]
    fn no_instruction_begins_there() {
        assert_eq!(passed_once(&[0x48, 0x89, 0xe5, 0xc3], 0x1000), [0x1000, 0x1003]);
        assert_eq!(passed_once(&[0x90], 0x1000), [0x1000]);
        assert!(passed_once(&[], 0x1000).is_empty());
    }
}
