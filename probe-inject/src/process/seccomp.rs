//! The effect of a thread's filters of system calls (seccomp) on a call that it has not made. Pure.
//!
//! A filter is a program of the classic packet filter (BPF), whose jumps only lead forward. It runs
//! here with a call's number alone. A comparison with an unknown argument takes both branches. So
//! an answer holds for all arguments.
//!
//! A filter may allow a call, refuse it with an error, which most callers can bear, or kill the
//! thread. A filter that sends a signal or asks another process counts as one that kills. So does
//! one with an instruction that this module does not know.
//!
//! Reference: seccomp(2); `Documentation/networking/filter.rst` of the kernel's sources.

use libc::{
    SECCOMP_RET_ACTION_FULL as ACTION, SECCOMP_RET_ALLOW as ALLOW, SECCOMP_RET_ERRNO as ERRNO,
    SECCOMP_RET_LOG as LOG,
};

/// An instruction of a filter, laid out as the kernel's `struct sock_filter`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(C)]
pub struct BpfInstruction {
    /// The operation.
    pub code: u16,
    /// The instructions to skip if a comparison holds.
    pub jump_true: u8,
    /// The instructions to skip if it does not.
    pub jump_false: u8,
    /// The operand.
    pub operand: u32,
}

/// The filters of a thread, the newest first.
pub type Filters = Vec<Vec<BpfInstruction>>;

/// The numbers of system calls that a program of 64 bits may make.
const SYSCALL_NUMBERS: std::ops::Range<u32> = 0..512;
/// The end of each call from outside.
pub const RT_SIGRETURN: u32 = 15;
/// The system call by which the kernel continues some calls that a stop has interrupted.
pub const RESTART_SYSCALL: u32 = 219;
const AUDIT_ARCH_X86_64: u32 = 0xc000_003e;
/// The bytes of `struct seccomp_data`.
const DATA_BYTES: u32 = 64;

/// A value; `None` if it is unknown.
type Value = Option<u32>;

/// The state of the machine before an instruction.
#[derive(Clone, Copy, PartialEq, Eq)]
struct State {
    accumulator: Value,
    index: Value,
    memory: [Value; 16],
}

impl State {
    /// Keeps the values on which two states agree.
    fn join(mut self, other: Self) -> Self {
        let keep_equal = |own: &mut Value, other: Value| {
            if *own != other {
                *own = None;
            }
        };
        keep_equal(&mut self.accumulator, other.accumulator);
        keep_equal(&mut self.index, other.index);
        self.memory.iter_mut().zip(other.memory).for_each(|(own, other)| keep_equal(own, other));
        self
    }
}

/// Returns whether these filters kill a thread for no system call, and let it return from the
/// handler of a signal.
pub fn none_ever_kills(filters: &[Vec<BpfInstruction>]) -> bool {
    SYSCALL_NUMBERS.into_iter().all(|number| none_kills(filters, number)) && all_allow(filters, RT_SIGRETURN)
}

/// Returns whether these filters let a thread live that makes a system call: they allow it, or
/// refuse it with an error.
pub fn none_kills(filters: &[Vec<BpfInstruction>], number: u32) -> bool {
    filters.iter().all(|filter| run_all_branches(filter, number, &[ALLOW, LOG, ERRNO]).is_some())
}

/// Returns whether these filters allow a system call.
pub fn all_allow(filters: &[Vec<BpfInstruction>], number: u32) -> bool {
    filters.iter().all(|filter| run_all_branches(filter, number, &[ALLOW, LOG]).is_some())
}

/// Takes all branches of a filter. `None` if one ends with another action than these.
fn run_all_branches(filter: &[BpfInstruction], number: u32, actions: &[u32]) -> Option<()> {
    let mut states: Vec<Option<State>> = vec![None; filter.len()];
    // The kernel begins with zeros.
    *states.first_mut()? = Some(State { accumulator: Some(0), index: Some(0), memory: [Some(0); 16] });
    for at in 0..filter.len() {
        let Some(mut state) = states[at] else { continue };
        let it = filter[at];
        let operand = if it.code & 0x08 == 0 { Some(it.operand) } else { state.index };
        let mut nexts = [Some(0_u32), None];
        // In the assembler of `bpf_asm`: ret 06 16, ld 00 20 60 80, ldx 01 61 81, st 02, stx 03,
        // tax 07, txa 87, neg 84, ja 05, jeq 15 1d, jgt 25 2d, jge 35 3d, jset 45 4d, arithmetic *4
        // *c.
        match it.code {
            0x06 | 0x16 => {
                let action = if it.code == 0x06 { Some(it.operand) } else { state.accumulator };
                if actions.contains(&(action? & ACTION)) {
                    continue;
                }
                return None;
            }
            0x20 => state.accumulator = load(it.operand, number),
            0x80 => state.accumulator = Some(DATA_BYTES),
            0x81 => state.index = Some(DATA_BYTES),
            0x00 => state.accumulator = Some(it.operand),
            0x01 => state.index = Some(it.operand),
            0x60 => state.accumulator = *state.memory.get(it.operand as usize)?,
            0x61 => state.index = *state.memory.get(it.operand as usize)?,
            0x02 => *state.memory.get_mut(it.operand as usize)? = state.accumulator,
            0x03 => *state.memory.get_mut(it.operand as usize)? = state.index,
            0x07 => state.index = state.accumulator,
            0x87 => state.accumulator = state.index,
            0x84 => state.accumulator = state.accumulator.map(u32::wrapping_neg),
            0x05 => nexts = [Some(it.operand), None],
            0x15 | 0x1d | 0x25 | 0x2d | 0x35 | 0x3d | 0x45 | 0x4d => {
                let (holds, fails) = (u32::from(it.jump_true), u32::from(it.jump_false));
                nexts = match state.accumulator.zip(operand) {
                    Some((a, b)) if compare(it.code, a, b) => [Some(holds), None],
                    Some(_) => [Some(fails), None],
                    None => [Some(holds), Some(fails)],
                };
            }
            code if code & 0x07 == 0x04 => {
                state.accumulator = match state.accumulator.zip(operand) {
                    Some((a, b)) => Some(calculate(code & 0xf0, a, b)?),
                    None => None,
                };
            }
            _ => return None,
        }
        for next in nexts.into_iter().flatten() {
            let next = states.get_mut(at.checked_add(1)?.checked_add(next as usize)?)?;
            *next = Some(next.map_or(state, |other| other.join(state)));
        }
    }
    Some(())
}

/// Returns a word of `struct seccomp_data`; `None` if the call's number does not determine it.
fn load(offset: u32, number: u32) -> Value {
    match offset {
        0 => Some(number),
        4 => Some(AUDIT_ARCH_X86_64),
        _ => None,
    }
}

fn compare(code: u16, a: u32, b: u32) -> bool {
    match code & 0xf0 {
        0x10 => a == b,
        0x20 => a > b,
        0x30 => a >= b,
        _ => a & b != 0,
    }
}

/// Returns the result; `None` for an unknown operation, a shift by more than 31 and a division by
/// zero, where kernels differ.
fn calculate(operation: u16, a: u32, b: u32) -> Value {
    match operation {
        0x00 => Some(a.wrapping_add(b)),
        0x10 => Some(a.wrapping_sub(b)),
        0x20 => Some(a.wrapping_mul(b)),
        0x30 => a.checked_div(b),
        0x40 => Some(a | b),
        0x50 => Some(a & b),
        0x60 => a.checked_shl(b),
        0x70 => a.checked_shr(b),
        0x90 => a.checked_rem(b),
        0xa0 => Some(a ^ b),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KILL: u32 = 0x8000_0000;

    fn op(code: u16, operand: u32) -> BpfInstruction {
        BpfInstruction { code, operand, ..BpfInstruction::default() }
    }

    fn jump(code: u16, operand: u32, jump_true: u8, jump_false: u8) -> BpfInstruction {
        BpfInstruction { code, jump_true, jump_false, operand }
    }

    /// A container's filter: another architecture ends the program, and some calls get an error.
    fn container() -> Vec<BpfInstruction> {
        vec![
            op(0x20, 4),
            jump(0x15, AUDIT_ARCH_X86_64, 1, 0),
            op(0x06, KILL),
            op(0x20, 0),
            jump(0x35, 0x4000_0000, 0, 1),
            op(0x06, KILL),
            jump(0x15, 272, 0, 1),
            op(0x06, ERRNO | 1),
            op(0x06, ALLOW),
        ]
    }

    #[test]
    fn the_filter_of_a_container_kills_nobody() {
        assert!(none_ever_kills(&[container()]));
        assert!(none_ever_kills(&[container(), vec![op(0x06, LOG)]]));
        assert!(!none_ever_kills(&[container(), vec![op(0x06, KILL)]]));
        assert!(none_ever_kills(&[]));
        // A handler must be able to return.
        let no_return =
            vec![op(0x20, 0), jump(0x15, RT_SIGRETURN, 0, 1), op(0x06, ERRNO | 1), op(0x06, ALLOW)];
        assert!(!none_ever_kills(&[no_return]));
    }

    #[test]
    fn one_call_may_end_the_thread() {
        for action in [KILL, 0, 0x0003_0000, 0x7fc0_0000, 0x7ff0_0000] {
            let filter = vec![op(0x20, 0), jump(0x15, 9, 0, 1), op(0x06, action), op(0x06, ALLOW)];
            assert!(!all_allow(std::slice::from_ref(&filter), 9), "{action:#x}");
            assert!(all_allow(std::slice::from_ref(&filter), 11));
            assert!(!none_ever_kills(&[filter]));
        }
    }

    #[test]
    fn an_unknown_value_takes_both_branches() {
        // By the low half of the second argument.
        let by_argument = |then| vec![op(0x20, 24), jump(0x45, 4, 0, 1), op(0x06, then), op(0x06, ALLOW)];
        assert!(!all_allow(&[by_argument(KILL)], 9));
        assert!(!all_allow(&[by_argument(ERRNO | 1)], 9) && all_allow(&[by_argument(LOG)], 9));
        // The number comes back from the memory, and the sum of an argument with itself is unknown.
        let mut kept = vec![op(0x20, 0), op(0x02, 3), op(0x20, 16), op(0x07, 0), op(0x0c, 0), op(0x60, 3)];
        kept.extend([op(0x54, 0xff), jump(0x15, 9, 0, 1), op(0x06, KILL), op(0x06, ALLOW)]);
        assert!(!all_allow(std::slice::from_ref(&kept), 9) && all_allow(&[kept], 10));
        assert!(!all_allow(&[vec![op(0x20, 16), op(0x16, 0)]], 9));
    }

    #[test]
    fn a_malformed_filter_is_not_trusted() {
        for filter in [
            vec![],
            vec![op(0x20, 0)],
            vec![op(0x05, u32::MAX), op(0x06, ALLOW)],
            vec![op(0xffff, 0), op(0x06, ALLOW)],
            vec![op(0x02, 16), op(0x06, ALLOW)],
            vec![op(0x34, 0), op(0x06, ALLOW)],
            vec![op(0x64, 32), op(0x06, ALLOW)],
        ] {
            assert!(!all_allow(std::slice::from_ref(&filter), 9), "{filter:?}");
        }
    }

    /// Runs a filter for one call, with all its arguments, as the kernel does.
    fn execute(filter: &[BpfInstruction], data: &[u32; 16]) -> Value {
        let (mut a, mut x, mut memory) = (0_u32, 0_u32, [0_u32; 16]);
        let mut at = 0;
        loop {
            let it = filter.get(at)?;
            let operand = if it.code & 0x08 == 0 { it.operand } else { x };
            at += 1;
            match it.code {
                0x06 => return Some(it.operand),
                0x16 => return Some(a),
                0x20 => a = data[it.operand as usize / 4],
                0x00 => a = it.operand,
                0x02 => memory[it.operand as usize] = a,
                0x60 => a = memory[it.operand as usize],
                0x07 => x = a,
                0x87 => a = x,
                0x05 => at += it.operand as usize,
                0x15 | 0x1d | 0x25 | 0x2d | 0x35 | 0x3d | 0x45 | 0x4d => {
                    at +=
                        usize::from(if compare(it.code, a, operand) { it.jump_true } else { it.jump_false });
                }
                code => a = calculate(code & 0xf0, a, operand)?,
            }
        }
    }

    fn any_instruction() -> impl Strategy<Value = BpfInstruction> {
        let code = prop::sample::select(vec![
            0x06, 0x16, 0x20, 0x20, 0x00, 0x02, 0x60, 0x07, 0x87, 0x05, 0x15, 0x15, 0x1d, 0x25, 0x2d, 0x35,
            0x3d, 0x45, 0x4d, 0x04, 0x0c, 0x14, 0x44, 0x54, 0x5c, 0xa4,
        ]);
        let action = prop::sample::select(vec![KILL, ALLOW, LOG, ERRNO | 1]);
        (code, 0..4_u8, 0..4_u8, 0..16_u32, action).prop_map(
            |(code, jump_true, jump_false, small, action)| {
                let operand = match code {
                    0x06 => action,
                    0x20 => 4 * small,
                    0x05 => small % 3,
                    _ => small,
                };
                BpfInstruction { code, jump_true, jump_false, operand }
            },
        )
    }

    proptest! {
        #[test]
        fn an_allowed_call_is_allowed_with_all_arguments(
            mut filter in prop::collection::vec(any_instruction(), 1..24),
            number in 0..16_u32,
            rest in prop::array::uniform14(0..16_u32),
        ) {
            filter.push(op(0x06, ALLOW));
            let mut data = [0; 16];
            data[..2].copy_from_slice(&[number, AUDIT_ARCH_X86_64]);
            data[2..].copy_from_slice(&rest);
            if all_allow(std::slice::from_ref(&filter), number) {
                let action = execute(&filter, &data).map(|it| it & ACTION);
                prop_assert!(matches!(action, Some(ALLOW | LOG)), "{action:x?}");
            }
        }
    }
}
