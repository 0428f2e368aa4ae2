//! The quick functions of consumers change no register that the way in does not keep: none but the
//! general ones and the lower parts of `xmm0` to `xmm15`. Follows their machine code in this
//! program, with all functions that they call.
#![cfg(all(feature = "quick", target_arch = "x86_64", target_os = "linux", not(probe_portable)))]

use std::collections::{BTreeMap, BTreeSet};

use iced_x86::{
    Decoder, DecoderOptions, EncodingKind, FlowControl, Instruction, InstructionInfoFactory, OpKind,
    Register, UsedRegister,
};
use object::{Object, ObjectSection, ObjectSymbol, RelocationTarget, SymbolKind};
use probe_runtime::{CallTree, Latency, Profiler, select};

/// The functions of this program, by address: their names and code. Pointers to them that the
/// dynamic linker fills in, by place.
struct Functions<'a> {
    all: BTreeMap<u64, (&'a str, &'a [u8])>,
    pointers: BTreeMap<u64, u64>,
}

impl<'a> Functions<'a> {
    fn of(file: &object::File<'a>) -> Self {
        let text = |symbol: &object::Symbol<'a, '_>| {
            let section = file.section_by_index(symbol.section_index()?).ok()?;
            let code = section.data_range(symbol.address(), symbol.size()).ok()??;
            Some((symbol.address(), (symbol.name().ok()?, code)))
        };
        let is_function = |it: &object::Symbol<'_, '_>| it.kind() == SymbolKind::Text && it.size() != 0;
        let all = file.symbols().filter(is_function).filter_map(|it| text(&it)).collect();
        let relocations = file.dynamic_relocations().into_iter().flatten();
        let own = relocations.filter(|(_, it)| it.target() == RelocationTarget::Absolute);
        Self { all, pointers: own.map(|(at, it)| (at, it.addend().cast_unsigned())).collect() }
    }

    fn instructions(&self, address: u64) -> Vec<Instruction> {
        Decoder::with_ip(64, self.all[&address].1, address, DecoderOptions::NONE).into_iter().collect()
    }

    /// Returns where a call or a jump leads, if that is one address: in the instruction, at a place
    /// that it reads, or in a register that was loaded from one just before.
    fn target(&self, code: &[Instruction]) -> Option<u64> {
        let (leading, before) = code.split_last()?;
        let of = |it: &Instruction| {
            it.is_ip_rel_memory_operand().then(|| self.pointers.get(&it.ip_rel_memory_address()).copied())?
        };
        match leading.op0_kind() {
            OpKind::NearBranch64 => Some(leading.near_branch_target()),
            OpKind::Register => {
                let is_load = |it: &&Instruction| {
                    it.op0_kind() == OpKind::Register && it.op0_register() == leading.op0_register()
                };
                before.iter().rev().take(12).find(is_load).and_then(of)
            }
            _ => of(leading),
        }
    }
}

/// Functions that never return: the hit is over anyway.
fn is_panic(name: &str) -> bool {
    name.contains("9panicking") || name.contains("index_fail") || name.contains("13unwrap_failed")
}

/// Returns what the instruction does to registers beyond those that are kept.
fn beyond(instruction: &Instruction, infos: &mut InstructionInfoFactory) -> Option<String> {
    let used = infos.info(instruction).used_registers().iter().map(UsedRegister::register);
    let is_kept = |register: Register| {
        register.is_xmm() && register.number() < 16 && instruction.encoding() == EncodingKind::Legacy
    };
    let is_other =
        |it: &Register| it.is_vector_register() || it.is_k() || it.is_mm() || it.is_st() || it.is_tmm();
    let name = format!("{:?}", instruction.mnemonic());
    // Arithmetic would raise exceptions, which stay in `MXCSR`.
    let moves = ["Mov", "Xor", "And", "Or", "P", "Unpck", "Shuf"];
    let found =
        used.filter(is_other).find(|it| !is_kept(*it) || !moves.iter().any(|it| name.starts_with(it)));
    found.map(|register| format!("{instruction} changes {register:?}"))
}

#[test]
fn quick_functions_stay_within_the_registers_that_are_kept() {
    // So that the program has them.
    let consumers = || -> Result<(), probe_runtime::Error> {
        drop(select("none_such")?.attach(Latency::new())?);
        drop(select("none_such")?.attach(CallTree::new())?);
        drop(select("none_such")?.attach(Profiler::new())?);
        Ok(())
    };
    assert!(consumers().is_err());
    if cfg!(debug_assertions) {
        println!("skipped: without optimisation, everything is kept for them");
        return;
    }
    let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let file = object::File::parse(&*program).unwrap();
    let functions = Functions::of(&file);
    let quick: Vec<_> = functions
        .all
        .iter()
        .filter(|(_, (name, _))| name.contains("8dispatch8listener3run"))
        .map(|(at, _)| *at)
        .collect();
    assert_eq!(quick.len(), 3, "one for each consumer");
    let mut infos = InstructionInfoFactory::new();
    let (mut left, mut seen) = (quick, BTreeSet::new());
    let mut faults = Vec::new();
    while let Some(at) = left.pop() {
        let (name, code) = functions.all[&at];
        if !seen.insert(at) || is_panic(name) {
            continue;
        }
        let (instructions, inside) = (functions.instructions(at), at..at + code.len() as u64);
        for (number, instruction) in instructions.iter().enumerate() {
            faults.extend(beyond(instruction, &mut infos).map(|fault| format!("{name}: {fault}")));
            let is_leading = !matches!(
                instruction.flow_control(),
                FlowControl::Next | FlowControl::Return | FlowControl::Exception | FlowControl::Interrupt
            );
            match functions.target(&instructions[..=number]) {
                _ if !is_leading => (),
                Some(target) if functions.all.contains_key(&target) => left.push(target),
                Some(target) if inside.contains(&target) => (),
                _ => faults.push(format!("{name}: {instruction} leads elsewhere")),
            }
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}
