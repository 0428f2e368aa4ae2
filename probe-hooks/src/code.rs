//! Jumps and calls of a hook, in a function's code. Pure: bytes in, addresses out.
//!
//! If the exit hook is a function's last action, compilers jump to it
//! (`jmp __cyg_profile_func_exit`). The hook then returns to the function's caller, and can't tell
//! where it was jumped from. So the function's code is decoded, with all of its fragments (`parse`,
//! `parse.cold`, `parse.part.0`). The result is each jump that leaves the code, with the value of
//! `rdi` there: the function that the hook is told.
//!
//! Nothing is guessed. The value of `rdi` is searched for backwards over every path to the jump,
//! through copies between registers. All paths must end at one address, or at the load of one
//! pointer. A call ends the search in a register that it may change. There are no such jumps in
//! code with an instruction that is not understood, with a branch into the middle of another
//! instruction, or with a jump through a table, which may lead anywhere. Conditional jumps do not
//! count: one byte could not replace them, and would have to continue where they do not jump.
//!
//! [`hook_uses`] asks less: which functions may tell a hook of themselves, and where. The stub of a
//! call compares the function that the hook is told, so a value that does not come does no harm
//! there. So code that nothing is known to lead to may follow any jump through a table, and any
//! call, whose exceptions land there.

use std::collections::BTreeSet;

use iced_x86::{Code, FlowControl, Instruction, InstructionInfoFactory, OpAccess, OpKind, Register};

use probe_core::abi::Kind;

use crate::flow::{Before, Flow, Fragment, addr, is_call};

/// The length of the shortest jump that is found. Jumps to other objects have no shorter form.
const MIN_JUMP_LEN: usize = 5;

/// Limits the instructions that are examined for one value.
const MAX_STEPS: usize = 1 << 14;
/// Limits the steps between instructions for all values of a function. Each of a function's calls
/// may lead to each of its landing pads.
const MAX_ALL_STEPS: usize = 1 << 22;
/// Further steps for each of a function's instructions.
const MAX_STEPS_EACH: usize = 1 << 6;
/// The target of a call or a jump.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// This address.
    Direct(usize),
    /// The value of the pointer at this address.
    Through(usize),
}

/// The value of a register.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum RegisterValue {
    /// This address.
    Address(usize),
    /// The value of the pointer at this address.
    Pointer(usize),
}

/// A jump out of a function's code.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Jump {
    /// Its address.
    pub at: usize,
    /// The instruction, with its prefixes.
    pub bytes: Vec<u8>,
    /// The hook, or the way to it.
    pub target: Target,
    /// The value of its first argument.
    pub function: RegisterValue,
}

/// The instruction that leads to a hook.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// A call.
    Call,
    /// A call of the address in a register.
    CallRegister,
    /// A jump out of the function.
    Jump,
    /// A jump to the address in a register.
    JumpRegister,
    /// A conditional jump.
    ConditionalJump,
}

/// A call of a hook, or a jump to one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HookUse {
    /// Which hook.
    pub kind: Kind,
    /// The address of the call or the jump, with its prefixes.
    pub at: usize,
    /// Its length, in bytes.
    pub len: usize,
    /// Its instruction.
    pub form: Form,
    /// The hook, or the way to it.
    pub target: Target,
    /// The values that its first argument may have: several if inlined functions with like ends
    /// share it (crossjumping), none if nothing tells.
    pub functions: Vec<RegisterValue>,
    /// Whether there are no others.
    pub are_all: bool,
}

impl HookUse {
    /// Returns the address that the call returns to; `None` for a jump.
    pub fn returns(&self) -> Option<usize> {
        matches!(self.form, Form::Call | Form::CallRegister).then_some(self.at.wrapping_add(self.len))
    }
}

/// Returns the uses of hooks in a function's fragments, ascending. `hook` returns the hook that a
/// target leads to. Where not all values of the first argument can be told, the use has those of
/// all others in these fragments, too: a function that was inlined there is entered and left there.
/// Returns `None` if the code is not understood.
pub fn hook_uses(fragments: &[Fragment], hook: impl Fn(Target) -> Option<Kind>) -> Option<Vec<HookUse>> {
    let code = Flow::of(fragments)?;
    let mut search = Search::new(&code, true);
    let used = |(number, instruction): (usize, &Instruction)| {
        let is_at_rip = instruction.is_ip_rel_memory_operand();
        let form = match instruction.flow_control() {
            FlowControl::Call => Form::Call,
            FlowControl::UnconditionalBranch => Form::Jump,
            FlowControl::ConditionalBranch => Form::ConditionalJump,
            FlowControl::IndirectCall if is_at_rip => Form::Call,
            FlowControl::IndirectBranch if is_at_rip => Form::Jump,
            FlowControl::IndirectCall => Form::CallRegister,
            FlowControl::IndirectBranch => Form::JumpRegister,
            _ => return None,
        };
        let target = match form {
            Form::CallRegister | Form::JumpRegister if instruction.op0_kind() != OpKind::Register => {
                return None;
            }
            // An address or a pointer that was loaded once for several calls.
            Form::CallRegister | Form::JumpRegister => {
                match search.values_before(number, instruction.op0_register()).only()? {
                    RegisterValue::Pointer(at) => Target::Through(at),
                    RegisterValue::Address(there) => Target::Direct(there),
                }
            }
            _ if is_at_rip => Target::Through(addr(instruction.ip_rel_memory_address())),
            _ => Target::Direct(addr(instruction.near_branch_target())),
        };
        let kind = hook(target)?;
        let Values { known: functions, are_all } = search.values_before(number, Register::RDI);
        let (at, len) = (addr(instruction.ip()), instruction.len());
        Some(HookUse { kind, at, len, form, target, functions, are_all })
    };
    let (mut whole, others): (Vec<_>, Vec<_>) =
        code.instructions.iter().enumerate().filter_map(used).partition(|it| it.are_all);
    if !others.is_empty() {
        let all: BTreeSet<_> =
            whole.iter().chain(&others).flat_map(|it| it.functions.iter().copied()).collect();
        let all: Vec<_> = all.into_iter().collect();
        whole.extend(others.into_iter().map(|it| HookUse { functions: all.clone(), ..it }));
    }
    whole.sort_by_key(|it| it.at);
    Some(whole)
}

/// Returns all jumps out of a function's fragments whose first argument is certain.
pub fn jumps(fragments: &[Fragment]) -> Vec<Jump> {
    let Some(code) = Flow::of(fragments).filter(|code| !code.has_tables) else { return Vec::new() };
    let bytes = |instruction: &Instruction| {
        let at = addr(instruction.ip());
        let fragment = fragments.iter().find(|it| (it.addr..it.addr + it.code.len()).contains(&at))?;
        Some(fragment.code.get(at - fragment.addr..at - fragment.addr + instruction.len())?.to_vec())
    };
    let mut search = Search::new(&code, false);
    let jump = |(number, instruction): (usize, &Instruction)| {
        let target = match instruction.flow_control() {
            _ if instruction.len() < MIN_JUMP_LEN => return None,
            FlowControl::UnconditionalBranch => Target::Direct(addr(instruction.near_branch_target())),
            FlowControl::IndirectBranch => Target::Through(addr(instruction.ip_rel_memory_address())),
            _ => return None,
        };
        if matches!(target, Target::Direct(there) if code.number_at(there).is_some()) {
            return None;
        }
        let function = search.values_before(number, Register::RDI).only()?;
        Some(Jump { at: addr(instruction.ip()), bytes: bytes(instruction)?, target, function })
    };
    code.instructions.iter().enumerate().filter_map(jump).collect()
}

/// The search for values of registers.
struct Search<'a> {
    code: &'a Flow,
    /// Whether code that nothing is known to lead to may be reached from [`Flow::anywhere`], and
    /// nobody calls a fragment that another one jumps to.
    follows: bool,
    info: InstructionInfoFactory,
    /// Steps that are left for all values of the function.
    steps: usize,
}

impl<'a> Search<'a> {
    fn new(code: &'a Flow, follows: bool) -> Self {
        let steps = MAX_ALL_STEPS.saturating_add(code.instructions.len().saturating_mul(MAX_STEPS_EACH));
        Self { code, follows, info: InstructionInfoFactory::new(), steps }
    }

    /// Returns the values of a register when an instruction is reached, on all paths.
    fn values_before(&mut self, number: usize, register: Register) -> Values {
        let (mut known, mut are_all) = (BTreeSet::new(), true);
        let mut seen = BTreeSet::from([(number, register)]);
        let mut open = vec![(number, register)];
        let mut before = Vec::new();
        while let Some((number, register)) = open.pop() {
            before.clear();
            match self.code.each_before(number, self.follows, &mut |number| before.push(number)) {
                Before::Unknown => are_all = false,
                // All such code is reached alike, so it is looked at once, under one number.
                Before::Anywhere if seen.insert((usize::MAX, register)) => {
                    before.extend_from_slice(&self.code.anywhere);
                }
                Before::All | Before::Anywhere => (),
            }
            for number in &before {
                match effect(&self.code.instructions[*number], register, &mut self.info) {
                    Effect::Unknown => are_all = false,
                    Effect::Value(value) => _ = known.insert(value),
                    Effect::Copy(from) => {
                        if seen.insert((*number, from)) {
                            open.push((*number, from));
                        }
                    }
                }
            }
            self.steps = self.steps.saturating_sub(before.len() + 1);
            if seen.len() > MAX_STEPS || self.steps == 0 {
                are_all = false;
                break;
            }
        }
        Values { known: known.into_iter().collect(), are_all }
    }
}

/// The values of a register.
struct Values {
    known: Vec<RegisterValue>,
    /// Whether there are no others.
    are_all: bool,
}

impl Values {
    /// Returns the value, if it is the only possible one.
    fn only(self) -> Option<RegisterValue> {
        if let ([only], true) = (&*self.known, self.are_all) { Some(*only) } else { None }
    }
}

/// The value that an instruction leaves in a register.
enum Effect {
    Value(RegisterValue),
    /// The value that this register had before.
    Copy(Register),
    Unknown,
}

fn effect(instruction: &Instruction, register: Register, info: &mut InstructionInfoFactory) -> Effect {
    if is_call(instruction) {
        return if is_kept_by_callees(register) { Effect::Copy(register) } else { Effect::Unknown };
    }
    let is_written = info.info(instruction).used_registers().iter().any(|used| {
        let is_write = !matches!(used.access(), OpAccess::None | OpAccess::Read | OpAccess::CondRead);
        is_write && used.register().full_register() == register
    });
    if !is_written {
        return Effect::Copy(register);
    }
    if instruction.op0_register().full_register() != register {
        return Effect::Unknown;
    }
    let is_at_rip = instruction.is_ip_rel_memory_operand() && instruction.segment_prefix() == Register::None;
    match instruction.code() {
        Code::Lea_r64_m if is_at_rip => {
            Effect::Value(RegisterValue::Address(addr(instruction.ip_rel_memory_address())))
        }
        Code::Mov_r64_rm64 if is_at_rip => {
            Effect::Value(RegisterValue::Pointer(addr(instruction.ip_rel_memory_address())))
        }
        Code::Mov_r64_rm64 | Code::Mov_rm64_r64 if instruction.op1_kind() == OpKind::Register => {
            Effect::Copy(instruction.op1_register())
        }
        Code::Mov_r32_imm32 | Code::Mov_rm64_imm32 | Code::Mov_r64_imm64 => {
            Effect::Value(RegisterValue::Address(addr(instruction.immediate(1))))
        }
        _ => Effect::Unknown,
    }
}

fn is_kept_by_callees(register: Register) -> bool {
    use Register::{R12, R13, R14, R15, RBP, RBX};
    [RBX, RBP, R12, R13, R14, R15].contains(&register)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const OWN: [u8; 7] = [0x48, 0x8d, 0x1d, 0xf9, 0xff, 0xff, 0xff]; // lea rbx, [its own address]
    const CALL: [u8; 5] = [0xe8, 0, 0x10, 0, 0];
    const JUMP: [u8; 5] = [0xe9, 0, 0x20, 0, 0];
    const COPY: [u8; 3] = [0x48, 0x89, 0xdf]; // mov rdi, rbx
    const OTHER: [u8; 7] = [0x48, 0x8d, 0x3d, 0, 1, 0, 0]; // lea rdi, [rip + 0x100]
    const LOAD: [u8; 7] = [0x48, 0x8b, 0x3d, 0, 1, 0, 0]; // mov rdi, [rip + 0x100]

    /// Returns the offsets of the found jumps, and the values that they pass to the hook.
    fn found(code: &[&[u8]]) -> Vec<(usize, RegisterValue)> {
        let fragment = Fragment { addr: 0x1000, code: code.concat() };
        jumps(&[fragment]).into_iter().map(|jump| (jump.at - 0x1000, jump.function)).collect()
    }

    #[test]
    fn a_value_is_followed_through_copies_and_calls() {
        let own = RegisterValue::Address(0x1000);
        assert_eq!(found(&[&OWN, &CALL, &COPY, &[0x5b], &JUMP]), [(16, own)]);
        assert_eq!(found(&[&LOAD, &JUMP]), [(7, RegisterValue::Pointer(0x1107))]);
        assert_eq!(found(&[&[0xbf, 0x34, 0x12, 0, 0], &JUMP]), [(5, RegisterValue::Address(0x1234))]);
        let jump = jumps(&[Fragment { addr: 0x1000, code: [&OTHER[..], &JUMP].concat() }]);
        assert_eq!((&*jump[0].bytes, jump[0].target), (&JUMP[..], Target::Direct(0x300c)));
    }

    #[test]
    fn jumps_through_pointers_have_their_prefixes() {
        let code = [&OTHER[..], &[0x3e, 0xff, 0x25, 0, 2, 0, 0]].concat();
        let jump = &jumps(&[Fragment { addr: 0x1000, code }])[0];
        assert_eq!((jump.at, jump.bytes.len(), jump.target), (0x1007, 7, Target::Through(0x120e)));
    }

    #[test]
    fn what_is_lost_is_not_guessed() {
        assert_eq!(found(&[&JUMP]), [], "from the caller");
        assert_eq!(found(&[&OTHER, &CALL, &JUMP]), [], "a call changes it");
        assert_eq!(found(&[&OTHER, &[0x48, 0x83, 0xc7, 1], &JUMP]), [], "add rdi, 1");
        assert_eq!(found(&[&OTHER, &[0x40, 0xb7, 1], &JUMP]), [], "mov dil, 1");
        assert_eq!(found(&[&OTHER, &[0x0f, 0x84, 0, 1, 0, 0], &[0xc3]]), [], "conditional");
        assert_eq!(found(&[&OTHER, &JUMP, &[0xff, 0xe0]]), [], "jmp rax");
        assert_eq!(found(&[&OTHER, &JUMP, &[0xeb, 0xfd]]), [], "into the middle of another");
        assert_eq!(found(&[&OTHER, &JUMP, &[0x06]]), [], "no instruction");
        assert_eq!(found(&[&OTHER, &[0xc3], &[0x5b], &JUMP]), [], "nothing is known to lead there");
    }

    #[test]
    fn all_ways_have_to_agree() {
        // je over the next two; lea rdi; jmp over the last; lea rdi; jmp hook
        let ways = |last: &[u8; 7]| found(&[&[0x74, 9], &OTHER, &[0xeb, 7], last, &JUMP]);
        assert_eq!(ways(&[0x48, 0x8d, 0x3d, 0xf7, 0, 0, 0]), [(18, RegisterValue::Address(0x1109))]);
        assert_eq!(ways(&OTHER), []);
        assert_eq!(ways(&[0x48, 0x8b, 0x3d, 0xf7, 0, 0, 0]), [], "a pointer at the same address");
    }

    #[test]
    fn padding_is_not_executed() {
        let code: [&[u8]; 5] = [&OTHER, &[0x74, 7], &JUMP, &[0x66, 0x90], &JUMP];
        assert_eq!(found(&code).len(), 2);
        // A loop back to the copy.
        assert_eq!(found(&[&OWN, &COPY, &[0x74, 0xfb], &JUMP]), [(12, RegisterValue::Address(0x1000))]);
    }

    #[test]
    fn fragments_lead_into_each_other() {
        let main = Fragment { addr: 0x1000, code: [&OTHER[..], &JUMP].concat() };
        let cold = |to: u8| Fragment { addr: 0x1010, code: vec![0xeb, to] };
        assert_eq!(jumps(std::slice::from_ref(&main)).len(), 1);
        // This leads to the jump itself, with an unknown value.
        assert_eq!(jumps(&[main.clone(), cold(0xf5)]), []);
        // This leads to the beginning of the function.
        assert_eq!(jumps(&[main, cold(0xee)]).len(), 1);
    }

    /// Returns the kinds of the found uses, the offsets of the calls' ends, and the functions.
    fn used(code: &[&[u8]]) -> Vec<(Kind, Option<usize>, Vec<RegisterValue>)> {
        let hook = |target| match target {
            // The targets of `CALL` and `JUMP` at several places, and a pointer.
            Target::Direct(0x2000..0x2100) => Some(Kind::Entry),
            Target::Direct(0x3000..0x3100) | Target::Through(0x5000) => Some(Kind::Exit),
            _ => None,
        };
        let uses = hook_uses(&[Fragment { addr: 0x1000, code: code.concat() }], hook).unwrap();
        uses.into_iter().map(|it| (it.kind, it.returns().map(|it| it - 0x1000), it.functions)).collect()
    }

    #[test]
    fn calls_and_jumps_tell_their_functions() {
        let own = || vec![RegisterValue::Address(0x1000)];
        let code: [&[u8]; 5] = [&OWN, &COPY, &CALL, &COPY, &JUMP];
        assert_eq!(used(&code), [(Kind::Entry, Some(15), own()), (Kind::Exit, None, own())]);
        // je hook
        assert_eq!(used(&[&OWN, &COPY, &[0x0f, 0x84, 0, 0x20, 0, 0]]), [(Kind::Exit, None, own())]);
    }

    #[test]
    fn a_use_has_all_functions_that_it_may_tell() {
        let both = [0x1000, 0x1110].map(RegisterValue::Address);
        // lea rbx; je to the copy; lea rdi; jmp over the copy; copy; call
        let code: [&[u8]; 6] = [&OWN, &[0x74, 9], &OTHER, &[0xeb, 3], &COPY, &CALL];
        assert_eq!(used(&code), [(Kind::Entry, Some(26), both.to_vec())]);
        // The first call changes it, so the second one may be of any function here.
        let code: [&[u8]; 6] = [&OTHER, &[0x90; 3], &CALL, &CALL, &OWN, &COPY];
        let [own, other] = [0x1014, 0x1107].map(RegisterValue::Address);
        assert_eq!(
            used(&[&code[..], &[&JUMP]].concat()),
            [
                (Kind::Entry, Some(15), vec![other]),
                (Kind::Entry, Some(20), vec![own, other]),
                (Kind::Exit, None, vec![own]),
            ]
        );
        assert_eq!(used(&[&CALL]), [(Kind::Entry, Some(5), Vec::new())], "there is none");
    }

    #[test]
    fn a_pointer_that_is_loaded_once_leads_to_a_hook() {
        let own = RegisterValue::Address(0x1000);
        // mov r12, [rip + …]; call r12
        let load = [0x4c, 0x8b, 0x25, 0xef, 0x3f, 0, 0];
        let code: [&[u8]; 6] = [&OWN, &[0x90; 3], &load, &COPY, &[0x41, 0xff, 0xd4], &[0xc3]];
        assert_eq!(used(&code), [(Kind::Exit, Some(23), vec![own])]);
        // lea r12, [the hook]; call r12
        let load = [0x4c, 0x8d, 0x25, 0xef, 0x1f, 0, 0];
        let code: [&[u8]; 6] = [&OWN, &[0x90; 3], &load, &COPY, &[0x41, 0xff, 0xd4], &[0xc3]];
        assert_eq!(used(&code), [(Kind::Exit, Some(23), vec![own])]);
    }

    #[test]
    fn code_that_is_reached_through_a_table_is_reached_from_the_table() {
        let own = RegisterValue::Address(0x1000);
        let table = [0xff, 0xe0]; // jmp rax
        assert_eq!(used(&[&OWN, &table, &COPY, &CALL]), [(Kind::Entry, Some(17), vec![own])]);
        assert_eq!(found(&[&OWN, &table, &COPY, &JUMP]), []);
        // An exception lands behind the `ret`.
        let lands: [&[u8]; 5] = [&OWN, &CALL, &[0xc3], &COPY, &JUMP];
        assert_eq!(used(&lands).last(), Some(&(Kind::Exit, None, vec![own])));
        // The compiler has moved a part out of the way. The part jumps back.
        let main = Fragment { addr: 0x1000, code: [&OWN[..], &[0x74, 10], &COPY, &JUMP].concat() };
        let cold = Fragment { addr: 0x1013, code: vec![0xeb, 0xf4] };
        let is_hook = |target| matches!(target, Target::Direct(0x3000..0x3100)).then_some(Kind::Exit);
        let uses = hook_uses(&[main, cold], is_hook).unwrap();
        let [HookUse { functions, .. }] = &uses[..] else { panic!() };
        assert_eq!(*functions, [own]);
    }

    proptest! {
        #[test]
        fn uses_never_panic(code in proptest::collection::vec(any::<u8>(), 0..64), addr in 0..usize::MAX - 64) {
            let _ = hook_uses(&[Fragment { addr, code }], |_| Some(Kind::Entry));
        }

        #[test]
        fn never_panics(code in proptest::collection::vec(any::<u8>(), 0..64), addr in 0..usize::MAX - 64) {
            for jump in jumps(&[Fragment { addr, code: code.clone() }]) {
                prop_assert!(code[jump.at - addr..].starts_with(&jump.bytes));
            }
        }
    }
}
