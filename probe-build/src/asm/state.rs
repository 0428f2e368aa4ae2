//! What registers and stack slots are known to hold at one place in a function.

use std::collections::BTreeMap;

/// Something known: an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    /// Of a symbol.
    Symbol(&'a str),
    /// In the frame, relative to the stack pointer at the function's first instruction.
    Stack(i64),
}

/// A general register, by its number in the instruction set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Register(u8);

impl Register {
    pub(super) const RAX: Self = Self(0);
    pub(super) const RCX: Self = Self(1);
    pub(super) const RDX: Self = Self(2);
    pub(super) const RSP: Self = Self(4);
    pub(super) const RBP: Self = Self(5);
    pub(super) const RSI: Self = Self(6);
    pub(super) const RDI: Self = Self(7);
    /// What a called function may change.
    const CALLER_SAVED: [Self; 9] =
        [Self(0), Self(1), Self(2), Self(6), Self(7), Self(8), Self(9), Self(10), Self(11)];

    /// The register that `%rdi`, `%r8`… name: all of its 64 bits.
    pub(super) fn whole(operand: &str) -> Option<Self> {
        const NAMES: [&str; 16] = [
            "%rax", "%rcx", "%rdx", "%rbx", "%rsp", "%rbp", "%rsi", "%rdi", "%r8", "%r9", "%r10", "%r11",
            "%r12", "%r13", "%r14", "%r15",
        ];
        NAMES.iter().zip(0..).find_map(|(name, number)| (*name == operand).then_some(Self(number)))
    }

    /// The register of `%edi`, `%r8d`…: the lower half, whose change clears the upper one.
    pub(super) fn half(operand: &str) -> Option<Self> {
        if let Some(name) = operand.strip_prefix("%e") {
            return Self::whole(&format!("%r{name}"));
        }
        Self::whole(operand.strip_suffix('d').filter(|it| it.starts_with("%r"))?).filter(|it| it.0 >= 8)
    }

    /// The register that an operand names any part of.
    pub(super) fn any(operand: &str) -> Option<Self> {
        // An AVX-512 destination may be followed by a mask; general ones are not.
        if let Some(register) = Self::whole(operand).or_else(|| Self::half(operand)) {
            return Some(register);
        }
        let number = match operand.strip_prefix('%')? {
            "ax" | "al" | "ah" => 0,
            "cx" | "cl" | "ch" => 1,
            "dx" | "dl" | "dh" => 2,
            "bx" | "bl" | "bh" => 3,
            "sp" | "spl" => 4,
            "bp" | "bpl" => 5,
            "si" | "sil" => 6,
            "di" | "dil" => 7,
            name => {
                let digits = name.strip_prefix('r')?.trim_end_matches(['b', 'w', 'd', 'l']);
                digits.parse().ok().filter(|number| (8..16).contains(number))?
            }
        };
        Some(Self(number))
    }
}

/// Addresses in a frame and in one realigned from it are as far apart, so that they are told apart.
const APART: i64 = 1 << 40;

/// All that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct State<'a> {
    registers: [Option<Value<'a>>; 16],
    /// Eight bytes each, by their address in the frame.
    slots: BTreeMap<i64, Value<'a>>,
}

impl<'a> State<'a> {
    /// Nothing is known, but for the stack pointer, if that is.
    pub(super) fn unknown(stack_pointer: Option<i64>) -> Self {
        let mut state = Self { registers: [None; 16], slots: BTreeMap::new() };
        state.set(Register::RSP, stack_pointer.map(Value::Stack));
        state
    }

    pub(super) fn get(&self, register: Register) -> Option<Value<'a>> {
        self.registers[usize::from(register.0)]
    }

    pub(super) fn set(&mut self, register: Register, value: Option<Value<'a>>) {
        self.registers[usize::from(register.0)] = value;
    }

    /// The address in the frame that a register holds.
    pub(super) fn stack(&self, register: Register) -> Option<i64> {
        match self.get(register) {
            Some(Value::Stack(at)) => Some(at),
            _ => None,
        }
    }

    pub(super) fn slot(&self, at: i64) -> Option<Value<'a>> {
        self.slots.get(&at).copied()
    }

    /// A store of `bytes` bytes at an address in the frame.
    pub(super) fn store(&mut self, at: i64, bytes: i64, value: Option<Value<'a>>) {
        self.slots.retain(|slot, _| {
            let near = slot.abs_diff(at) < APART.unsigned_abs() / 2;
            near && (slot.saturating_add(8) <= at || *slot >= at.saturating_add(bytes))
        });
        if let Some(value) = value {
            self.slots.insert(at, value);
        }
    }

    /// The stack pointer is rounded down to it is not known where: a new frame begins. What is stored in one of the
    /// two may lie in the other.
    pub(super) fn realign(&mut self) {
        self.forget_slots();
        self.step(-APART);
    }

    pub(super) fn forget_slots(&mut self) {
        self.slots.clear();
    }

    /// Moves the stack pointer.
    pub(super) fn step(&mut self, bytes: i64) {
        let moved = self.stack(Register::RSP).and_then(|at| at.checked_add(bytes));
        self.set(Register::RSP, moved.map(Value::Stack));
    }

    /// After a call: what the called function may change is unknown, and what lay below the stack pointer.
    pub(super) fn call(&mut self) {
        for register in Register::CALLER_SAVED {
            self.set(register, None);
        }
        match self.stack(Register::RSP) {
            Some(bottom) => self.slots.retain(|slot, _| *slot >= bottom),
            None => self.forget_slots(),
        }
    }

    /// Keeps what both states agree in. Says whether that is less than before.
    pub(super) fn join(&mut self, other: &Self) -> bool {
        let mut less = false;
        for (mine, its) in self.registers.iter_mut().zip(&other.registers) {
            if mine.is_some() && mine != its {
                *mine = None;
                less = true;
            }
        }
        let slots = self.slots.len();
        self.slots.retain(|slot, value| other.slots.get(slot) == Some(value));
        less || slots != self.slots.len()
    }
}
