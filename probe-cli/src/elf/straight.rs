//! Whether the beginning of a function tells of a place inside of it. Pure.

use iced_x86::{Decoder, DecoderOptions, FlowControl};

/// Returns whether each call of the function whose code this is passes `place` once: no branch and
/// no call lies between, and no jump of the function leads back there. So a place that was inlined
/// behind a condition, or into a loop, is none.
///
/// ```
/// use probe_cli::elf::passes_once;
/// let code = [0x55, 0x0f, 0x1f, 0x44, 0x00, 0x08, 0xc3]; // push rbp; nop; ret
/// assert!(passes_once(&code, 0x1000, 0x1001));
/// let loops = [0x55, 0x0f, 0x1f, 0x44, 0x00, 0x08, 0xeb, 0xf9]; // push rbp; nop; jmp to the nop
/// assert!(!passes_once(&loops, 0x1000, 0x1001));
/// ```
pub fn passes_once(code: &[u8], start: u64, place: u64) -> bool {
    let mut is_passed = false;
    for instruction in Decoder::with_ip(64, code, start, DecoderOptions::NONE) {
        if instruction.is_invalid() {
            break;
        }
        let is_ahead = instruction.ip() < place;
        is_passed |= instruction.ip() == place;
        // A jump to the beginning is a call, as its tracer sees it.
        let leads_back = (start + 1..=place).contains(&instruction.near_branch_target());
        if leads_back || is_ahead && instruction.flow_control() != FlowControl::Next {
            return false;
        }
    }
    is_passed
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOP: [u8; 5] = [0x0f, 0x1f, 0x44, 0x00, 0x08];

    fn at(ahead: &[u8], behind: &[u8]) -> bool {
        let code = [ahead, &NOP, behind].concat();
        passes_once(&code, 0x1000, 0x1000 + ahead.len() as u64)
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

    #[test]
    fn no_instruction_begins_there() {
        assert!(!passes_once(&[0x48, 0x89, 0xe5, 0xc3], 0x1000, 0x1001));
        assert!(!passes_once(&[0x90], 0x1000, 0x1005));
        assert!(!passes_once(&[], 0x1000, 0x1000));
    }
}
