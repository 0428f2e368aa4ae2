//! The effect of a thread's filters of system calls (seccomp) on a call that it has not made. Pure.
//!
//! A filter is a program of the classic packet filter, whose jumps only lead forward. It runs here
//! with a call's number alone. At a comparison with an unknown argument, it goes both ways. So an
//! answer holds for all arguments.
//!
//! A filter may let a call pass, refuse it with an error, which most callers can bear, or end the
//! thread. One that sends a signal or asks another process counts as the last, and so does one with
//! an instruction that this module does not know.
//!
//! Reference: seccomp(2); `Documentation/networking/filter.rst` of the kernel's sources.

/// An instruction of a filter, as the kernel has it (`struct sock_filter`).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(C)]
pub struct Instruction {
    /// The operation.
    pub code: u16,
    /// The instructions to skip if a comparison holds.
    pub holds: u8,
    /// The instructions to skip if it doesn't.
    pub fails: u8,
    /// The operand.
    pub operand: u32,
}

/// The filters of a thread, the newest first.
pub type Filters = Vec<Vec<Instruction>>;

/// The numbers of system calls that a program of 64 bits may have.
const NUMBERS: std::ops::Range<u32> = 0..512;
/// `rt_sigreturn`, the end of each call from outside.
pub const RETURN: u32 = 15;
/// `restart_syscall`, by which the kernel goes on with some calls that a stop has interrupted.
pub const RESTART: u32 = 219;
/// `AUDIT_ARCH_X86_64`.
const ARCHITECTURE: u32 = 0xc000_003e;
/// The bytes of `struct seccomp_data`.
const DATA: u32 = 64;

const ALLOW: u32 = 0x7fff_0000;
const LOG: u32 = 0x7ffc_0000;
const ERROR: u32 = 0x0005_0000;
const ACTION: u32 = 0xffff_0000;

/// A value; `None` if it is not known.
type Value = Option<u32>;

/// The state before an instruction: the accumulator, the index, the memory.
#[derive(Clone, Copy, PartialEq, Eq)]
struct State {
    accumulator: Value,
    index: Value,
    memory: [Value; 16],
}

impl State {
    /// Keeps the values that two states agree on.
    fn joined(mut self, other: Self) -> Self {
        let join = |own: &mut Value, other: Value| {
            if *own != other {
                *own = None;
            }
        };
        join(&mut self.accumulator, other.accumulator);
        join(&mut self.index, other.index);
        self.memory.iter_mut().zip(other.memory).for_each(|(own, other)| join(own, other));
        self
    }
}

/// Returns whether these filters let a thread live whatever system call it makes, and return from
/// the handler of a signal.
pub fn all_survive(filters: &[Vec<Instruction>]) -> bool {
    NUMBERS.into_iter().all(|number| survives(filters, number)) && passes(filters, RETURN)
}

/// Returns whether these filters let a thread live that makes a system call: they let it pass, or
/// refuse it with an error.
pub fn survives(filters: &[Vec<Instruction>], number: u32) -> bool {
    filters.iter().all(|filter| run(filter, number, &[ALLOW, LOG, ERROR]).is_some())
}

/// Returns whether these filters let a system call pass.
pub fn passes(filters: &[Vec<Instruction>], number: u32) -> bool {
    filters.iter().all(|filter| run(filter, number, &[ALLOW, LOG]).is_some())
}

/// Goes all ways through a filter. `None` if one leads to another action than these.
fn run(filter: &[Instruction], number: u32, actions: &[u32]) -> Option<()> {
    let mut states: Vec<Option<State>> = vec![None; filter.len()];
    // The kernel's begin with zeros.
    *states.first_mut()? = Some(State { accumulator: Some(0), index: Some(0), memory: [Some(0); 16] });
    for at in 0..filter.len() {
        let Some(mut state) = states[at] else { continue };
        let it = filter[at];
        let operand = if it.code & 0x08 == 0 { Some(it.operand) } else { state.index };
        let mut nexts = [Some(0_u32), None];
        match it.code {
            // Returns of a number, and of the accumulator.
            0x06 | 0x16 => {
                let action = if it.code == 0x06 { Some(it.operand) } else { state.accumulator };
                if actions.contains(&(action? & ACTION)) {
                    continue;
                }
                return None;
            }
            0x20 => state.accumulator = loaded(it.operand, number),
            0x80 => state.accumulator = Some(DATA),
            0x81 => state.index = Some(DATA),
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
                let (holds, fails) = (u32::from(it.holds), u32::from(it.fails));
                nexts = match state.accumulator.zip(operand) {
                    Some((a, b)) if compared(it.code, a, b) => [Some(holds), None],
                    Some(_) => [Some(fails), None],
                    None => [Some(holds), Some(fails)],
                };
            }
            code if code & 0x07 == 0x04 => {
                state.accumulator = match state.accumulator.zip(operand) {
                    Some((a, b)) => Some(calculated(code & 0xf0, a, b)?),
                    None => None,
                };
            }
            _ => return None,
        }
        for next in nexts.into_iter().flatten() {
            let next = states.get_mut(at.checked_add(1)?.checked_add(next as usize)?)?;
            *next = Some(next.map_or(state, |other| other.joined(state)));
        }
    }
    Some(())
}

/// Returns a word of `struct seccomp_data`, if the number tells it.
fn loaded(offset: u32, number: u32) -> Value {
    match offset {
        0 => Some(number),
        4 => Some(ARCHITECTURE),
        _ => None,
    }
}

fn compared(code: u16, a: u32, b: u32) -> bool {
    match code & 0xf0 {
        0x10 => a == b,
        0x20 => a > b,
        0x30 => a >= b,
        _ => a & b != 0,
    }
}

/// Returns the result; `None` for an operation that does not exist, for a shift by more than 31,
/// and for a division by zero: kernels differ there.
fn calculated(operation: u16, a: u32, b: u32) -> Value {
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

    fn op(code: u16, operand: u32) -> Instruction {
        Instruction { code, operand, ..Instruction::default() }
    }

    fn jump(code: u16, operand: u32, holds: u8, fails: u8) -> Instruction {
        Instruction { code, holds, fails, operand }
    }

    /// One of a container: another architecture ends the program, some calls get an error.
    fn container() -> Vec<Instruction> {
        vec![
            op(0x20, 4),
            jump(0x15, ARCHITECTURE, 1, 0),
            op(0x06, KILL),
            op(0x20, 0),
            jump(0x35, 0x4000_0000, 0, 1),
            op(0x06, KILL),
            jump(0x15, 272, 0, 1),
            op(0x06, ERROR | 1),
            op(0x06, ALLOW),
        ]
    }

    #[test]
    fn a_container_s_lets_all_live() {
        assert!(all_survive(&[container()]));
        assert!(all_survive(&[container(), vec![op(0x06, LOG)]]));
        assert!(!all_survive(&[container(), vec![op(0x06, KILL)]]));
        assert!(all_survive(&[]));
        // Nobody can go on from a handler that can't return.
        let no_return = vec![op(0x20, 0), jump(0x15, RETURN, 0, 1), op(0x06, ERROR | 1), op(0x06, ALLOW)];
        assert!(!all_survive(&[no_return]));
    }

    #[test]
    fn one_call_may_end_the_thread() {
        for deadly in [KILL, 0, 0x0003_0000, 0x7fc0_0000, 0x7ff0_0000] {
            let filter = vec![op(0x20, 0), jump(0x15, 9, 0, 1), op(0x06, deadly), op(0x06, ALLOW)];
            assert!(!passes(std::slice::from_ref(&filter), 9), "{deadly:#x}");
            assert!(passes(std::slice::from_ref(&filter), 11));
            assert!(!all_survive(&[filter]));
        }
    }

    #[test]
    fn what_is_not_known_goes_both_ways() {
        // By the low half of the second argument.
        let by_argument = |then| vec![op(0x20, 24), jump(0x45, 4, 0, 1), op(0x06, then), op(0x06, ALLOW)];
        assert!(!passes(&[by_argument(KILL)], 9));
        assert!(!passes(&[by_argument(ERROR | 1)], 9) && passes(&[by_argument(LOG)], 9));
        // The number comes back from the memory, and the sum of an argument with itself is unknown.
        let mut kept = vec![op(0x20, 0), op(0x02, 3), op(0x20, 16), op(0x07, 0), op(0x0c, 0), op(0x60, 3)];
        kept.extend([op(0x54, 0xff), jump(0x15, 9, 0, 1), op(0x06, KILL), op(0x06, ALLOW)]);
        assert!(!passes(std::slice::from_ref(&kept), 9) && passes(&[kept], 10));
        assert!(!passes(&[vec![op(0x20, 16), op(0x16, 0)]], 9));
    }

    #[test]
    fn what_is_no_filter_is_not_trusted() {
        for filter in [
            vec![],
            vec![op(0x20, 0)],
            vec![op(0x05, u32::MAX), op(0x06, ALLOW)],
            vec![op(0xffff, 0), op(0x06, ALLOW)],
            vec![op(0x02, 16), op(0x06, ALLOW)],
            vec![op(0x34, 0), op(0x06, ALLOW)],
            vec![op(0x64, 32), op(0x06, ALLOW)],
        ] {
            assert!(!passes(std::slice::from_ref(&filter), 9), "{filter:?}");
        }
    }

    /// Runs a filter for one call, with all its arguments, as the kernel does.
    fn executed(filter: &[Instruction], data: &[u32; 16]) -> Value {
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
                    at += usize::from(if compared(it.code, a, operand) { it.holds } else { it.fails });
                }
                code => a = calculated(code & 0xf0, a, operand)?,
            }
        }
    }

    fn any_instruction() -> impl Strategy<Value = Instruction> {
        let code = prop::sample::select(vec![
            0x06, 0x16, 0x20, 0x20, 0x00, 0x02, 0x60, 0x07, 0x87, 0x05, 0x15, 0x15, 0x1d, 0x25, 0x2d, 0x35,
            0x3d, 0x45, 0x4d, 0x04, 0x0c, 0x14, 0x44, 0x54, 0x5c, 0xa4,
        ]);
        let action = prop::sample::select(vec![KILL, ALLOW, LOG, ERROR | 1]);
        (code, 0..4_u8, 0..4_u8, 0..16_u32, action).prop_map(|(code, holds, fails, small, action)| {
            let operand = match code {
                0x06 => action,
                0x20 => 4 * small,
                0x05 => small % 3,
                _ => small,
            };
            Instruction { code, holds, fails, operand }
        })
    }

    proptest! {
        #[test]
        fn a_call_passes_with_all_arguments(
            mut filter in prop::collection::vec(any_instruction(), 1..24),
            number in 0..16_u32,
            rest in prop::array::uniform14(0..16_u32),
        ) {
            filter.push(op(0x06, ALLOW));
            let mut data = [0; 16];
            data[..2].copy_from_slice(&[number, ARCHITECTURE]);
            data[2..].copy_from_slice(&rest);
            if passes(std::slice::from_ref(&filter), number) {
                let action = executed(&filter, &data).map(|it| it & ACTION);
                prop_assert!(matches!(action, Some(ALLOW | LOG)), "{action:x?}");
            }
        }
    }
}
