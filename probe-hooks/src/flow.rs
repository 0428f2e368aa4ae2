//! A function's instructions, and the ways between them. Pure: bytes in, instructions out.

use std::collections::BTreeMap;

use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind};

/// Limits the code of a function that is decoded, in bytes: 50 bytes of memory for each.
pub(crate) const MAX_CODE_LEN: usize = 1 << 23;

/// A piece of a function's code, as the object's file has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fragment {
    /// The address of its first byte.
    pub addr: usize,
    /// Its bytes.
    pub code: Vec<u8>,
}

/// A function's instructions, and the paths that lead to each.
pub(crate) struct Flow {
    /// In the order of their addresses.
    pub(crate) instructions: Vec<Instruction>,
    /// The ways to each instruction, but for `branches`.
    ways: Vec<Ways>,
    /// The instructions that branches lead to, ascending, each with the branch.
    branches: Vec<(usize, usize)>,
    /// Whether an instruction may continue anywhere.
    pub(crate) has_tables: bool,
    /// The instructions that may continue where nothing is known to lead.
    pub(crate) anywhere: Vec<usize>,
    /// The jumps to the beginnings of fragments from other fragments.
    between: BTreeMap<usize, Vec<usize>>,
}

/// The ways to an instruction.
#[derive(Clone, Copy)]
struct Ways {
    /// Whether all are known: no caller begins here.
    are_known: bool,
    /// Whether the instruction before may continue here.
    falls: bool,
    /// Whether branches lead here.
    has_branches: bool,
}

impl Flow {
    /// Returns the flow; `None` if not everything is understood, or if there is too much.
    pub(crate) fn of(fragments: &[Fragment]) -> Option<Self> {
        let mut fragments: Vec<_> = fragments.iter().collect();
        fragments.sort_unstable_by_key(|it| it.addr);
        if fragments.iter().map(|it| it.code.len()).sum::<usize>() > MAX_CODE_LEN {
            return None;
        }
        let (mut instructions, mut ways) = (Vec::new(), Vec::new());
        let (mut has_tables, mut anywhere) = (false, Vec::new());
        for fragment in &fragments {
            let start = instructions.len();
            let mut decoder =
                Decoder::with_ip(64, &fragment.code, fragment.addr as u64, DecoderOptions::NONE);
            while decoder.can_decode() {
                let instruction = decoder.decode();
                if instruction.is_invalid() {
                    return None;
                }
                let number = instructions.len();
                let is_table = is_anywhere(&instruction);
                has_tables |= is_table;
                if is_table || is_call(&instruction) {
                    anywhere.push(number);
                }
                let falls = number > start && falls_through(&instructions[number - 1]);
                // Callers reach the beginning.
                ways.push(Ways { are_known: number > start, falls, has_branches: false });
                instructions.push(instruction);
            }
        }
        let (branches, between) = (Vec::new(), BTreeMap::new());
        let mut flow = Self { instructions, ways, branches, has_tables, anywhere, between };
        flow.find_branches(&fragments)?;
        flow.remove_padding();
        Some(flow)
    }

    /// Finds what branches lead to. Returns `None` if one leads into the middle of an instruction.
    fn find_branches(&mut self, fragments: &[&Fragment]) -> Option<()> {
        let fragment_of = |there: usize| {
            let after = fragments.partition_point(|it| it.addr <= there);
            let at = after.checked_sub(1)?;
            (there - fragments[at].addr < fragments[at].code.len()).then_some(at)
        };
        for (number, instruction) in self.instructions.iter().enumerate() {
            let Some(there) = branch_target(instruction) else { continue };
            let Some(to) = self.number_at(there) else {
                if fragment_of(there).is_some() {
                    return None;
                }
                continue;
            };
            if instruction.flow_control() == FlowControl::Call {
                self.ways[to].are_known = false;
            } else {
                self.branches.push((to, number));
            }
        }
        self.branches.sort_unstable();
        for (to, from) in &self.branches {
            let [one, other] = [*to, *from].map(|number| fragment_of(addr(self.instructions[number].ip())));
            if self.ways[*to].are_known {
                self.ways[*to].has_branches = true;
            } else if one != other {
                self.between.entry(*to).or_default().push(*from);
            }
        }
        Some(())
    }

    /// Returns the number of the instruction at an address.
    pub(crate) fn number_at(&self, there: usize) -> Option<usize> {
        self.instructions.binary_search_by_key(&there, |it| addr(it.ip())).ok()
    }

    /// Removes the padding between a jump and the next instruction that has a predecessor, since no
    /// thread executes it.
    fn remove_padding(&mut self) {
        for number in 1..self.instructions.len() {
            let Ways { are_known, falls, has_branches } = self.ways[number - 1];
            if are_known && !falls && !has_branches && is_nop(&self.instructions[number - 1]) {
                self.ways[number].falls = false;
            }
        }
    }

    /// Returns the number of instructions.
    pub(crate) fn len(&self) -> usize {
        self.instructions.len()
    }

    /// Returns the beginnings that callers reach.
    pub(crate) fn beginnings(&self) -> impl Iterator<Item = usize> {
        (0..self.len()).filter(|number| !self.ways[*number].are_known && !self.between.contains_key(number))
    }

    /// Returns whether nothing is known to lead to an instruction, which is no padding.
    pub(crate) fn is_reached_from_anywhere(&self, number: usize) -> bool {
        let Ways { are_known, falls, has_branches } = self.ways[number];
        let instruction = &self.instructions[number];
        let is_padding = is_nop(instruction) || instruction.mnemonic() == Mnemonic::Int3;
        are_known && !falls && !has_branches && !is_padding
    }

    /// Returns whether an instruction may continue anywhere.
    pub(crate) fn is_table(&self, number: usize) -> bool {
        is_anywhere(&self.instructions[number])
    }

    /// Returns the instruction that one falls through to, and the one that it branches to.
    pub(crate) fn after(&self, number: usize) -> (Option<usize>, Option<usize>) {
        let instruction = &self.instructions[number];
        let next = self.ways.get(number + 1).is_some_and(|it| it.falls).then_some(number + 1);
        let branch = branch_target(instruction).filter(|_| !is_call(instruction));
        (next, branch.and_then(|there| self.number_at(there)))
    }

    /// Returns the instructions from which branches lead to one.
    fn branches_to(&self, number: usize) -> impl Iterator<Item = usize> {
        let first = self.branches.partition_point(|(to, _)| *to < number);
        self.branches[first..].iter().take_while(move |(to, _)| *to == number).map(|(_, from)| *from)
    }

    /// Calls `each` with the instructions that may be executed before one. Returns whether there
    /// are no other ways to it. With `follows`, code that nothing is known to lead to may be
    /// reached from [`anywhere`](Self::anywhere), and nobody calls a fragment that another one
    /// jumps to.
    pub(crate) fn each_before(&self, number: usize, follows: bool, each: &mut dyn FnMut(usize)) -> Before {
        match self.ways.get(number) {
            Some(Ways { are_known: true, falls: false, has_branches: false }) if follows => {
                return Before::Anywhere;
            }
            Some(Ways { are_known: true, falls, has_branches }) => {
                if *falls {
                    each(number - 1);
                }
                if *has_branches {
                    self.branches_to(number).for_each(each);
                }
                return if *falls || *has_branches { Before::All } else { Before::Unknown };
            }
            _ => (),
        }
        match self.between.get(&number).filter(|_| follows) {
            Some(between) => {
                between.iter().copied().for_each(each);
                Before::All
            }
            None => Before::Unknown,
        }
    }
}

/// Whether the ways to an instruction are known.
pub(crate) enum Before {
    All,
    Unknown,
    /// None is known, so it may be reached from [`Flow::anywhere`].
    Anywhere,
}

fn is_nop(instruction: &Instruction) -> bool {
    let is_exchange =
        matches!(instruction.code(), Code::Xchg_r16_AX | Code::Xchg_r32_EAX | Code::Xchg_r64_RAX);
    instruction.mnemonic() == Mnemonic::Nop
        || is_exchange && instruction.op0_register() == instruction.op1_register()
}

/// Returns whether an instruction may continue anywhere, for example through a table.
fn is_anywhere(instruction: &Instruction) -> bool {
    match instruction.flow_control() {
        FlowControl::IndirectBranch => !instruction.is_ip_rel_memory_operand(),
        FlowControl::XbeginXabortXend => true,
        _ => false,
    }
}

pub(crate) fn is_call(instruction: &Instruction) -> bool {
    matches!(instruction.flow_control(), FlowControl::Call | FlowControl::IndirectCall)
}

fn falls_through(instruction: &Instruction) -> bool {
    !matches!(
        instruction.flow_control(),
        FlowControl::UnconditionalBranch
            | FlowControl::IndirectBranch
            | FlowControl::Return
            | FlowControl::Exception
    )
}

fn branch_target(instruction: &Instruction) -> Option<usize> {
    let is_near =
        matches!(instruction.op0_kind(), OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64);
    is_near.then(|| addr(instruction.near_branch_target()))
}

/// Converts an address of 64 bits.
pub(crate) fn addr(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
