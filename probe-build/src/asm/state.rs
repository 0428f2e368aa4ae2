//! What registers and stack slots may hold at one place in a function.
//!
//! Two kinds of knowledge, joined in two ways. Which *symbols* a place may hold the address of: all
//! that some way leads there with, so a join is a union. Where in the *frame* a register points:
//! the same on every way, or unknown.

use super::register::Register;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::rc::Rc;

/// How an address is loaded, so that it can be loaded again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Load {
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
pub(super) struct Symbol<'a> {
    pub name: &'a str,
    pub load: Load,
}

/// The symbols whose addresses something may hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Symbols<'a> {
    /// None: it holds numbers, or the program's data.
    #[default]
    None,
    One(Symbol<'a>),
    /// In order, at least two.
    Several(Rc<[Symbol<'a>]>),
    /// Any, for all that is known.
    Any,
}

impl<'a> Symbols<'a> {
    /// Nothing if it is not known which.
    pub(super) fn known(&self) -> Option<&[Symbol<'a>]> {
        match self {
            Self::None => Some(&[]),
            Self::One(symbol) => Some(core::slice::from_ref(symbol)),
            Self::Several(symbols) => Some(symbols),
            Self::Any => None,
        }
    }

    /// Adds the other's symbols. Says whether there were new ones.
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

/// Whether something is an address in the frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Frame {
    #[default]
    No,
    /// This far from the stack pointer at the function's first instruction.
    At(i64),
    /// It may be one.
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

/// What something may hold.
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

    /// Neither a symbol nor in the frame.
    fn is_data(&self) -> bool {
        self.symbols == Symbols::None && self.frame == Frame::No
    }

    pub(super) fn join(&mut self, other: &Self) -> bool {
        let more = self.symbols.join(&other.symbols);
        self.frame.join(other.frame) || more
    }
}

/// Addresses in a frame and in one realigned from it are as far apart, so that they are told apart.
const APART: i64 = 1 << 40;

/// All that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct State<'a> {
    registers: [Value<'a>; 16],
    /// What any of the other registers (vectors, masks) may hold.
    pub vectors: Symbols<'a>,
    /// Eight bytes each, by their address in the frame; what is not here holds data. Most blocks
    /// change none: states share them.
    slots: Rc<BTreeMap<i64, Value<'a>>>,
    /// Whether a symbol was stored somewhere in the frame.
    lost: bool,
}

impl<'a> State<'a> {
    /// Before a function's first instruction.
    pub(super) fn entry() -> Self {
        let mut state = Self {
            registers: [const { Value { symbols: Symbols::None, frame: Frame::No } }; 16],
            vectors: Symbols::None,
            slots: Rc::default(),
            lost: false,
        };
        state.set(Register::RSP, Value::frame(Frame::At(0)));
        state
    }

    /// Nothing is known.
    pub(super) fn unknown() -> Self {
        Self {
            registers: [const { Value::ANY }; 16],
            vectors: Symbols::Any,
            slots: Rc::default(),
            lost: true,
        }
    }

    pub(super) fn get(&self, register: Register) -> &Value<'a> {
        &self.registers[register.number()]
    }

    pub(super) fn set(&mut self, register: Register, value: Value<'a>) {
        self.registers[register.number()] = value;
    }

    /// The register may have been changed to this.
    pub(super) fn may_set(&mut self, register: Register, value: &Value<'a>) {
        self.registers[register.number()].join(value);
    }

    pub(super) fn slot(&self, at: i64) -> Value<'a> {
        if self.lost { Value::ANY } else { self.slots.get(&at).cloned().unwrap_or_default() }
    }

    /// A store at an address in the frame, of at least `bytes` bytes. A value is eight.
    pub(super) fn store(&mut self, at: i64, bytes: i64, value: Value<'a>) {
        let end = at.saturating_add(bytes);
        // Slots of the other side of a realignment may be the same memory, or not: they keep what
        // they may hold.
        let touched: Vec<i64> = self.slots.range(at.saturating_sub(7)..end).map(|(slot, _)| *slot).collect();
        if !touched.is_empty() {
            let slots = Rc::make_mut(&mut self.slots);
            touched.iter().for_each(|slot| _ = slots.remove(slot));
        }
        if !value.is_data() {
            Rc::make_mut(&mut self.slots).insert(at, value);
        }
    }

    /// A store at an address in the frame of one to 64 bytes that are data.
    pub(super) fn overwrite(&mut self, at: i64) {
        self.store(at, 1, Value::default());
        let range = at..at.saturating_add(64);
        if self.slots.range(range.clone()).next().is_some() {
            for (_, value) in Rc::make_mut(&mut self.slots).range_mut(range) {
                value.frame.join(Frame::No);
            }
        }
    }

    /// A store somewhere in the frame.
    pub(super) fn store_somewhere(&mut self, value: &Value<'a>) {
        self.lost |= !value.is_data();
    }

    /// The stack pointer is rounded down to it is not known where: a new frame begins.
    pub(super) fn realign(&mut self) {
        // What is stored on one side is not looked for on the other.
        self.step(-APART);
    }

    /// Moves the stack pointer.
    pub(super) fn step(&mut self, bytes: i64) {
        let moved = self.get(Register::RSP).frame.plus(bytes);
        self.set(Register::RSP, Value::frame(moved));
    }

    /// After a call of a function that may change all that a called function may change.
    pub(super) fn call(&mut self) {
        for register in Register::CALLER_SAVED {
            self.set(register, Value::default());
        }
        self.vectors = Symbols::None;
    }

    /// After code whose changes are not seen: any register but stack and frame pointer may hold
    /// something else than an address in the frame. clang keeps such an address in `%rbx`, for the
    /// slots of realigned frames; what is in them is not known from now on.
    pub(super) fn opaque(&mut self) {
        let base = matches!(self.get(Register::RBX).frame, Frame::At(at) if at < -APART / 2);
        for register in Register::all().filter(|it| ![Register::RSP, Register::RBP].contains(it)) {
            self.may_set(register, &Value::default());
        }
        if base {
            self.set(Register::RBX, Value::ANY);
        }
    }

    /// Adds what the other may hold. Says whether that is more than before.
    pub(super) fn join(&mut self, other: &Self) -> bool {
        let mut more = false;
        for (mine, its) in self.registers.iter_mut().zip(&other.registers) {
            more |= mine.join(its);
        }
        more |= self.vectors.join(&other.vectors);
        if !Rc::ptr_eq(&self.slots, &other.slots) {
            // What the other has as data may be in the frame here.
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

    /// The same of the frame only: the other comes back to here by `longjmp`, with the registers of
    /// here.
    pub(super) fn join_frame(&mut self, other: &Self) -> bool {
        let mut more = other.lost && !self.lost;
        self.lost |= other.lost;
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
