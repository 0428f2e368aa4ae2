//! The hot path of a function: every instruction that runs while no site is active.
//!
//! The walk follows the control flow from the function's start, and treats a latent site as a NOP.
//! Only active sites lead to cold blocks, so the walk skips these, unless the hot path leads into
//! one.

use std::collections::{BTreeMap, BTreeSet};

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Formatter, GasFormatter, Instruction, InstructionInfoFactory,
    Mnemonic, OpAccess, Register,
};
use probe_tests::fixture::site_table::{NOP, SiteTable, is_latent_site};

/// The instructions of a hot path, in the order of the walk: fall-through first, then targets.
pub struct HotPath {
    instructions: Vec<Instruction>,
    edges: BTreeMap<u64, Vec<u64>>,
    /// The latent sites passed.
    pub sites: BTreeSet<u64>,
}

impl HotPath {
    /// Walks from `start` within a function of `size` bytes.
    pub fn walk(table: &SiteTable<'_>, start: u64, size: u64) -> Self {
        let code = table.bytes_at(start, size).expect("the function is in the file");
        let end = start + size;
        let mut this = Self { instructions: Vec::new(), edges: BTreeMap::new(), sites: BTreeSet::new() };
        let mut to_do = vec![start];
        while let Some(at) = to_do.pop() {
            if this.edges.contains_key(&at) {
                continue;
            }
            let offset = usize::try_from(at - start).expect("an offset");
            let mut decoder = Decoder::with_ip(64, &code[offset..], at, DecoderOptions::NONE);
            let instruction = decoder.decode();
            assert!(!instruction.is_invalid(), "no instruction at {at:#x}");
            let bytes = &code[offset..offset + instruction.len()];
            // The NOP may have a prefix: the byte before the site.
            if is_latent_site(bytes) {
                this.sites.insert(instruction.next_ip() - NOP.len() as u64);
            }
            let (next, target) = (instruction.next_ip(), instruction.near_branch_target());
            let edges = match instruction.flow_control() {
                FlowControl::Next | FlowControl::Call | FlowControl::IndirectCall => vec![next],
                FlowControl::ConditionalBranch => vec![target, next],
                FlowControl::UnconditionalBranch => vec![target],
                FlowControl::Return | FlowControl::Exception => Vec::new(),
                other => panic!("{other:?} at {at:#x}: not for a fixture of this test"),
            };
            // A jump out of the function is a tail call.
            let edges: Vec<u64> = edges.into_iter().filter(|to| (start..end).contains(to)).collect();
            to_do.extend(&edges);
            this.edges.insert(at, edges);
            this.instructions.push(instruction);
        }
        this
    }

    /// Returns all instructions except NOPs.
    pub fn all(&self) -> Vec<&Instruction> {
        self.instructions.iter().filter(|instruction| instruction.mnemonic() != Mnemonic::Nop).collect()
    }

    /// Returns the number of NOPs, sites included.
    pub fn nops(&self) -> usize {
        self.instructions.iter().filter(|instruction| instruction.mnemonic() == Mnemonic::Nop).count()
    }

    /// Returns address and length of each NOP that is neither a site, nor the padding of one, nor
    /// that ahead of a loop that the compiler has aligned, by address. The padding of a site
    /// without a prefix is the NOP directly ahead, which leads to the next word, or has one byte
    /// where the site needs none.
    pub fn other_nops(&self) -> Vec<(u64, usize)> {
        let nops = || self.instructions.iter().filter(|it| it.mnemonic() == Mnemonic::Nop);
        let is_site = |it: &&Instruction| self.sites.contains(&(it.next_ip() - NOP.len() as u64));
        let is_padding = |it: &&Instruction| {
            let site = it.next_ip();
            let fits = if site.is_multiple_of(8) { (1..=5).contains(&it.len()) } else { it.len() == 1 };
            fits && nops().filter(is_site).any(|own| own.ip() == site && own.len() == NOP.len())
        };
        let is_ahead_of_loop = |it: &&Instruction| {
            let next = it.next_ip();
            let leads_there = |(from, to): (&u64, &Vec<u64>)| *from != it.ip() && to.contains(&next);
            next.is_multiple_of(16) && self.edges.iter().any(leads_there)
        };
        let others = nops().filter(|it| !is_site(it) && !is_padding(it) && !is_ahead_of_loop(it));
        let others: BTreeMap<_, _> = others.map(|it| (it.ip(), it.len())).collect();
        others.into_iter().collect()
    }

    /// Returns those of [`all`](Self::all) that lie in a loop: each leads back to itself.
    pub fn in_loops(&self) -> Vec<&Instruction> {
        self.all().into_iter().filter(|instruction| self.leads_to_itself(instruction.ip())).collect()
    }

    fn leads_to_itself(&self, at: u64) -> bool {
        let mut seen = BTreeSet::new();
        let mut to_do = self.edges[&at].clone();
        while let Some(next) = to_do.pop() {
            if next == at {
                return true;
            }
            if seen.insert(next) {
                to_do.extend(&self.edges[&next]);
            }
        }
        false
    }

    /// Returns the length of the NOPs and prefixes directly before a site, without other sites.
    pub fn padding_before(&self, site: u64) -> usize {
        let end = site + NOP.len() as u64;
        let own = self.instructions.iter().find(|instruction| instruction.next_ip() == end);
        let mut at = own.expect("the site's instruction").ip();
        let is_padding = |instruction: &&Instruction| {
            let end = instruction.next_ip().wrapping_sub(NOP.len() as u64);
            instruction.mnemonic() == Mnemonic::Nop && !self.sites.contains(&end)
        };
        while let Some(nop) =
            self.instructions.iter().filter(is_padding).find(|instruction| instruction.next_ip() == at)
        {
            at = nop.ip();
        }
        usize::try_from(site - at).expect("a length")
    }
}

/// Formats instructions, one a line, without the distances of branches and constants.
pub fn listing(instructions: &[&Instruction]) -> String {
    let mut formatter = GasFormatter::new();
    let mut listing = String::new();
    for instruction in instructions {
        let mut instruction = **instruction;
        if instruction.is_ip_rel_memory_operand() {
            instruction.set_memory_displacement64(0);
        }
        if instruction.near_branch_target() != 0 {
            instruction.set_near_branch64(0);
        }
        listing.push_str("  ");
        formatter.format(&instruction, &mut listing);
        listing.push('\n');
    }
    listing
}

/// The number of instructions of each kind, regardless of order and registers.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Mix {
    /// Counts by mnemonic. All conditional jumps are `jcc`: the order of blocks may be inverted.
    mnemonics: BTreeMap<String, usize>,
    /// Reads of memory other than the stack.
    loads: usize,
    /// Pushes, pops, reads, writes and adjustments of the stack, without calls and returns.
    stack: usize,
}

impl Mix {
    /// Counts the instructions.
    pub fn of(instructions: &[&Instruction]) -> Self {
        let mut mix = Self::default();
        let mut factory = InstructionInfoFactory::new();
        for instruction in instructions {
            let mnemonic = if instruction.is_jcc_short_or_near() {
                "jcc".to_owned()
            } else {
                format!("{:?}", instruction.mnemonic()).to_lowercase()
            };
            *mix.mnemonics.entry(mnemonic).or_default() += 1;
            let info = factory.info(instruction);
            let reads = info.used_memory().iter().filter(|memory| {
                memory.base() != Register::RSP
                    && matches!(memory.access(), OpAccess::Read | OpAccess::ReadWrite | OpAccess::CondRead)
            });
            mix.loads += reads.count();
            let is_transfer = matches!(
                instruction.flow_control(),
                FlowControl::Call | FlowControl::IndirectCall | FlowControl::Return
            );
            mix.stack += usize::from(
                !is_transfer
                    && info.used_registers().iter().any(|used| used.register() == Register::RSP)
                    && instruction.mnemonic() != Mnemonic::Lea,
            );
        }
        mix
    }

    /// Returns the instructions that `self` has in addition to `plain`.
    pub fn beyond(&self, plain: &Self) -> Vec<(String, usize)> {
        let own = self.mnemonics.iter().map(|(name, count)| (name.as_str(), *count));
        let own = own.chain([("(load)", self.loads), ("(stack)", self.stack)]);
        own.filter_map(|(name, count)| {
            let there = match name {
                "(load)" => plain.loads,
                "(stack)" => plain.stack,
                name => plain.mnemonics.get(name).copied().unwrap_or_default(),
            };
            (count > there).then(|| (name.to_owned(), count - there))
        })
        .collect()
    }
}
