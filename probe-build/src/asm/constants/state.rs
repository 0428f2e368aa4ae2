//! The possible contents of registers and stack slots at one point in a function.
//!
//! There are two kinds of facts, joined in two ways. The *symbols* whose address a place may hold:
//! the join is the union over all paths. The position in the *frame* to which a register points: it
//! must be the same on every path, or else is unknown.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::rc::Rc;

/// A general register, by its number in the instruction set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Register(u8);

impl Register {
    pub(super) const RAX: Self = Self(0);
    pub(super) const RCX: Self = Self(1);
    pub(super) const RDX: Self = Self(2);
    pub(super) const RBX: Self = Self(3);
    pub(super) const RSP: Self = Self(4);
    pub(super) const RBP: Self = Self(5);
    pub(super) const RSI: Self = Self(6);
    pub(super) const RDI: Self = Self(7);
    /// The registers that a called function may change.
    pub(super) const CALLER_SAVED: [Self; 9] =
        [Self(0), Self(1), Self(2), Self(6), Self(7), Self(8), Self(9), Self(10), Self(11)];

    pub(super) fn number(self) -> usize {
        usize::from(self.0)
    }

    pub(super) fn all() -> impl Iterator<Item = Self> {
        (0..16).map(Self)
    }

    /// Returns the register that `%rdi`, `%r8`… name: all of its 64 bits.
    pub(super) fn whole(operand: &str) -> Option<Self> {
        const NAMES: [&str; 16] = [
            "%rax", "%rcx", "%rdx", "%rbx", "%rsp", "%rbp", "%rsi", "%rdi", "%r8", "%r9", "%r10", "%r11",
            "%r12", "%r13", "%r14", "%r15",
        ];
        NAMES.iter().zip(0..).find_map(|(name, number)| (*name == operand).then_some(Self(number)))
    }

    /// Returns the register of `%edi`, `%r8d`…: the lower half. A write to it clears the upper
    /// half.
    pub(super) fn half(operand: &str) -> Option<Self> {
        if let Some(name) = operand.strip_prefix("%e") {
            return Self::whole(&format!("%r{name}"));
        }
        Self::whole(operand.strip_suffix('d').filter(|it| it.starts_with("%r"))?).filter(|it| it.0 >= 8)
    }

    /// Returns the register of which an operand names any part.
    pub(super) fn any(operand: &str) -> Option<Self> {
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

/// The way in which an address was loaded, so that the code can load it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::asm) enum Load {
    /// `leaq f(%rip), …`
    Relative,
    /// `movq f@GOTPCREL(%rip), …`
    Table,
    /// `movl $f, …`
    Absolute32,
    /// `movq $f, …` and `movabsq $f, …`
    Absolute,
}

/// The address of a symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::asm) struct Symbol<'a> {
    pub name: &'a str,
    pub load: Load,
}

/// The symbols whose addresses a place may hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Symbols<'a> {
    /// None: the place holds numbers, or the program's data.
    #[default]
    None,
    One(Symbol<'a>),
    /// At least two, in order.
    Several(Rc<[Symbol<'a>]>),
    /// Unknown: any symbol.
    Any,
}

impl<'a> Symbols<'a> {
    /// Returns the symbols, or `None` if they are unknown.
    pub(super) fn known(&self) -> Option<&[Symbol<'a>]> {
        match self {
            Self::None => Some(&[]),
            Self::One(symbol) => Some(core::slice::from_ref(symbol)),
            Self::Several(symbols) => Some(symbols),
            Self::Any => None,
        }
    }

    /// Adds the other's symbols. Returns whether any of them is new.
    pub(super) fn join(&mut self, other: &Self) -> bool {
        if self == other {
            return false;
        }
        let joined = match (&*self, other) {
            (Self::Any, _) | (_, Self::None) => return false,
            (_, Self::Any) => Self::Any,
            (Self::None, _) => other.clone(),
            (Self::One(_) | Self::Several(_), Self::One(_) | Self::Several(_)) => {
                let (mine, its) = (self.known().unwrap_or_default(), other.known().unwrap_or_default());
                if its.iter().all(|symbol| mine.contains(symbol)) {
                    return false;
                }
                let mut all = [mine, its].concat();
                all.sort_unstable();
                all.dedup();
                Self::Several(all.into())
            }
        };
        *self = joined;
        true
    }
}

/// Whether a value is an address in the frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Frame {
    #[default]
    No,
    /// Its distance from the stack pointer at the function's first instruction.
    At(i64),
    /// It may be an address in the frame.
    Somewhere,
}

impl Frame {
    fn join(&mut self, other: Self) -> bool {
        let less = *self != other && *self != Self::Somewhere;
        if less {
            *self = Self::Somewhere;
        }
        less
    }

    pub(super) fn plus(self, bytes: i64) -> Self {
        match self {
            Self::At(at) => at.checked_add(bytes).map_or(Self::Somewhere, Self::At),
            other => other,
        }
    }
}

/// The possible contents of a place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Value<'a> {
    pub symbols: Symbols<'a>,
    pub frame: Frame,
}

impl<'a> Value<'a> {
    pub(super) const ANY: Self = Self { symbols: Symbols::Any, frame: Frame::Somewhere };

    pub(super) fn symbols(symbols: Symbols<'a>) -> Self {
        Self { symbols, frame: Frame::No }
    }

    pub(super) fn frame(frame: Frame) -> Self {
        Self { symbols: Symbols::None, frame }
    }

    /// Returns whether the value is neither a symbol's address nor an address in the frame.
    fn is_data(&self) -> bool {
        self.symbols == Symbols::None && self.frame == Frame::No
    }

    pub(super) fn join(&mut self, other: &Self) -> bool {
        let more = self.symbols.join(&other.symbols);
        self.frame.join(other.frame) || more
    }
}

/// The assumed distance between a frame and one realigned from it, so that their slots stay
/// distinct.
const REALIGNED_DISTANCE: i64 = 1 << 40;

/// The facts at one point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::asm) struct State<'a> {
    registers: [Value<'a>; 16],
    /// The possible symbols in all other registers (vectors, masks).
    pub(super) vectors: Symbols<'a>,
    /// Values of eight bytes, by their address in the frame. Any other slot holds data. Most blocks
    /// change no slot, so states share the map.
    slots: Rc<BTreeMap<i64, Value<'a>>>,
    /// Whether a symbol was stored at an unknown place in the frame.
    is_frame_unknown: bool,
}

impl<'a> State<'a> {
    /// Returns the state before a function's first instruction.
    pub(super) fn entry() -> Self {
        let mut state = Self {
            registers: [const { Value { symbols: Symbols::None, frame: Frame::No } }; 16],
            vectors: Symbols::None,
            slots: Rc::default(),
            is_frame_unknown: false,
        };
        state.set(Register::RSP, Value::frame(Frame::At(0)));
        state
    }

    /// Returns a state without any knowledge.
    pub(super) fn unknown() -> Self {
        Self {
            registers: [const { Value::ANY }; 16],
            vectors: Symbols::Any,
            slots: Rc::default(),
            is_frame_unknown: true,
        }
    }

    pub(super) fn get(&self, register: Register) -> &Value<'a> {
        &self.registers[register.number()]
    }

    pub(super) fn set(&mut self, register: Register, value: Value<'a>) {
        self.registers[register.number()] = value;
    }

    pub(super) fn may_set(&mut self, register: Register, value: &Value<'a>) {
        self.registers[register.number()].join(value);
    }

    pub(super) fn slot(&self, at: i64) -> Value<'a> {
        if self.is_frame_unknown { Value::ANY } else { self.slots.get(&at).cloned().unwrap_or_default() }
    }

    /// Stores a value at an address in the frame. The store has at least `bytes` bytes; a value has
    /// eight.
    pub(super) fn store(&mut self, at: i64, bytes: i64, value: Value<'a>) {
        let end = at.saturating_add(bytes);
        // Slots on the other side of a realignment may or may not be the same memory, so they keep
        // their possible values.
        let touched: Vec<i64> = self.slots.range(at.saturating_sub(7)..end).map(|(slot, _)| *slot).collect();
        if !touched.is_empty() {
            let slots = Rc::make_mut(&mut self.slots);
            touched.iter().for_each(|slot| _ = slots.remove(slot));
        }
        if !value.is_data() {
            Rc::make_mut(&mut self.slots).insert(at, value);
        }
    }

    /// Stores 1 to 64 bytes of data at an address in the frame.
    pub(super) fn overwrite(&mut self, at: i64) {
        self.store(at, 1, Value::default());
        let range = at..at.saturating_add(64);
        if self.slots.range(range.clone()).next().is_some() {
            for (_, value) in Rc::make_mut(&mut self.slots).range_mut(range) {
                value.frame.join(Frame::No);
            }
        }
    }

    /// Stores a value at an unknown place in the frame.
    pub(super) fn store_somewhere(&mut self, value: &Value<'a>) {
        self.is_frame_unknown |= !value.is_data();
    }

    /// Rounds the stack pointer down by an unknown amount: a new frame begins.
    pub(super) fn realign(&mut self) {
        // Values stored on one side are not looked up on the other.
        self.step(-REALIGNED_DISTANCE);
    }

    /// Moves the stack pointer.
    pub(super) fn step(&mut self, bytes: i64) {
        let moved = self.get(Register::RSP).frame.plus(bytes);
        self.set(Register::RSP, Value::frame(moved));
    }

    /// Applies a call of a function that may change all caller-saved registers.
    pub(super) fn call(&mut self) {
        for register in Register::CALLER_SAVED {
            self.set(register, Value::default());
        }
        self.vectors = Symbols::None;
    }

    /// Applies code whose changes are not visible. Any register but stack and frame pointer may
    /// then hold a value other than an address in the frame. clang keeps such an address in `%rbx`,
    /// for the slots of realigned frames; the contents of those slots are unknown from now on.
    pub(super) fn apply_opaque_code(&mut self) {
        let base = matches!(self.get(Register::RBX).frame, Frame::At(at) if at < -REALIGNED_DISTANCE / 2);
        for register in Register::all().filter(|it| ![Register::RSP, Register::RBP].contains(it)) {
            self.may_set(register, &Value::default());
        }
        if base {
            self.set(Register::RBX, Value::ANY);
        }
    }

    /// Adds the possible contents of the other state. Returns whether any are new.
    pub(super) fn join(&mut self, other: &Self) -> bool {
        let mut more = false;
        for (mine, its) in self.registers.iter_mut().zip(&other.registers) {
            more |= mine.join(its);
        }
        more |= self.vectors.join(&other.vectors);
        if !Rc::ptr_eq(&self.slots, &other.slots) {
            // A slot that holds data in the other state may hold an address in the frame here.
            let is_less =
                |slot: &i64, mine: &Value<'_>| mine.frame != Frame::No && !other.slots.contains_key(slot);
            if self.slots.iter().any(|(slot, mine)| is_less(slot, mine)) {
                for (slot, mine) in Rc::make_mut(&mut self.slots) {
                    if is_less(slot, mine) {
                        more |= mine.join(&Value::default());
                    }
                }
            }
        }
        self.join_frame(other) || more
    }

    /// Joins only the frame of the other state: `longjmp` returns from there to here, with the
    /// registers of here.
    pub(super) fn join_frame(&mut self, other: &Self) -> bool {
        let mut more = other.is_frame_unknown && !self.is_frame_unknown;
        self.is_frame_unknown |= other.is_frame_unknown;
        if Rc::ptr_eq(&self.slots, &other.slots) || self.slots == other.slots {
            return more;
        }
        let has_all = |(slot, its): (&i64, &Value<'_>)| self.slots.get(slot).is_some_and(|mine| mine == its);
        if other.slots.iter().all(has_all) {
            return more;
        }
        let slots = Rc::make_mut(&mut self.slots);
        for (slot, its) in other.slots.iter() {
            more |= match slots.entry(*slot) {
                Entry::Occupied(mut mine) => mine.get_mut().join(its),
                Entry::Vacant(vacant) => {
                    let frame = if its.frame == Frame::No { Frame::No } else { Frame::Somewhere };
                    vacant.insert(Value { symbols: its.symbols.clone(), frame });
                    true
                }
            };
        }
        more
    }
}
