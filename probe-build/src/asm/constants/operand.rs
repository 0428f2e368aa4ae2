//! Operands: their kinds, their values, and stores to them.

use super::state::{Frame, Load, Register, State, Symbol, Symbols, Value};
use crate::asm::line::{symbolic, unquoted};

pub(super) enum OperandKind<'s> {
    Register(Register),
    /// A vector register or the like.
    Other,
    /// Memory at a known address in the frame.
    Slot(i64),
    /// Memory in the frame, where the compiler's own slots may be.
    Frame,
    /// Memory of a symbol, or of the thread.
    Static(&'s str),
    /// Other memory.
    Memory,
    Immediate(&'s str),
}

pub(super) fn place<'s>(operand: &'s str, state: &State<'_>) -> OperandKind<'s> {
    if let Some(immediate) = operand.strip_prefix('$') {
        return OperandKind::Immediate(immediate);
    }
    if operand.starts_with('%') && !operand.contains(':') {
        // A vector register may be followed by a mask.
        return Register::any(operand).map_or(OperandKind::Other, OperandKind::Register);
    }
    if operand.starts_with("%fs:") || operand.starts_with("%gs:") {
        return OperandKind::Static("");
    }
    let Some((offset, _)) = operand.rsplit_once('(') else { return OperandKind::Static(operand) };
    let base = within(operand);
    if base == "%rip" {
        return OperandKind::Static(offset);
    }
    let Some(register) = Register::whole(base) else { return OperandKind::Memory };
    let offset = if offset.is_empty() { Some(0) } else { number(offset) };
    match state.get(register).frame {
        Frame::At(at) => {
            offset.and_then(|offset| at.checked_add(offset)).map_or(OperandKind::Frame, OperandKind::Slot)
        }
        Frame::Somewhere if register == Register::RSP => OperandKind::Frame,
        // A pointer of the program's: a frame pointer would point into the frame on every path.
        Frame::No | Frame::Somewhere => OperandKind::Memory,
    }
}

/// Returns the text within an operand's parentheses.
fn within(operand: &str) -> &str {
    operand.rsplit_once('(').map_or("", |(_, base)| base.trim_end_matches(')'))
}

/// Returns the eight bytes that an operand holds, or the address that it denotes.
pub(super) fn read<'a>(operand: &'a str, state: &State<'a>) -> Value<'a> {
    match place(operand, state) {
        OperandKind::Register(register) => state.get(register).clone(),
        OperandKind::Other => Value::symbols(state.vectors.clone()),
        OperandKind::Slot(at) => state.slot(at),
        OperandKind::Frame => Value::ANY,
        OperandKind::Static(symbol) => Value::symbols(loaded(symbol)),
        OperandKind::Immediate(symbol) => Value::symbols(immediate(symbol)),
        OperandKind::Memory => Value::symbols(mixed(registers(operand).map(|it| &state.get(it).symbols))),
    }
}

/// Returns the possible contents of memory at a symbol.
fn loaded(symbol: &str) -> Symbols<'_> {
    match symbol.strip_suffix("@GOTPCREL") {
        Some(symbol) => {
            plain(symbol).map_or(Symbols::Any, |name| Symbols::One(Symbol { name, load: Load::Table }))
        }
        None if is_table(symbol) || symbol.contains("@GOT") => Symbols::Any,
        None => Symbols::None,
    }
}

fn immediate(symbol: &str) -> Symbols<'_> {
    if number(symbol).is_some() {
        return Symbols::None;
    }
    plain(symbol).map_or(Symbols::Any, |name| Symbols::One(Symbol { name, load: Load::Absolute }))
}

pub(super) fn address<'a>(operand: &'a str, state: &State<'a>) -> Value<'a> {
    match place(operand, state) {
        OperandKind::Slot(at) => Value::frame(Frame::At(at)),
        OperandKind::Frame => Value::frame(Frame::Somewhere),
        OperandKind::Static(symbol) => Value::symbols(match plain(symbol) {
            Some(name) => Symbols::One(Symbol { name, load: Load::Relative }),
            // An address within the object of that symbol, so no function's start.
            None if symbol.contains('@') || is_table(symbol) => Symbols::Any,
            None => Symbols::None,
        }),
        _ => computed(operand, state),
    }
}

/// Returns the result of a computation with the registers that an operand names.
fn computed<'a>(operand: &str, state: &State<'a>) -> Value<'a> {
    let in_frame = registers(operand).any(|it| state.get(it).frame != Frame::No);
    Value {
        symbols: mixed(registers(operand).map(|it| &state.get(it).symbols)),
        frame: if in_frame { Frame::Somewhere } else { Frame::No },
    }
}

/// Returns the result of a computation with operands. One operand may give an address in the frame;
/// only an address in a table may give a function's address.
pub(super) fn result<'a>(operands: &[&'a str], state: &State<'a>) -> Value<'a> {
    let mut value = Value::default();
    for operand in operands {
        let its = match place(operand, state) {
            OperandKind::Immediate(symbol) if number(symbol).is_none() => Value::symbols(Symbols::Any),
            OperandKind::Other => Value::symbols(mixed([&state.vectors].into_iter())),
            OperandKind::Register(_) => computed(operand, state),
            OperandKind::Slot(at) => {
                let Value { symbols, frame } = state.slot(at);
                let frame = if frame == Frame::No { frame } else { Frame::Somewhere };
                Value { symbols: mixed([&symbols].into_iter()), frame }
            }
            _ => Value { frame: Frame::No, ..read(operand, state) },
        };
        value.symbols.join(&its.symbols);
        if its.frame != Frame::No {
            value.frame = Frame::Somewhere;
        }
    }
    value
}

/// Returns the symbols that may result from reading at these addresses, or from computing with
/// them.
fn mixed<'s, 'a: 's>(all: impl Iterator<Item = &'s Symbols<'a>>) -> Symbols<'static> {
    for symbols in all {
        if symbols.known().is_none_or(|known| known.iter().any(|symbol| is_table(symbol.name))) {
            return Symbols::Any;
        }
    }
    Symbols::None
}

/// Returns whether a symbol is the compiler's own, and may begin a table of addresses.
fn is_table(symbol: &str) -> bool {
    let symbol = symbol.trim_start_matches('"');
    symbol.starts_with(".L") || symbol.starts_with("CSWTCH")
}

/// Returns the general registers that an operand names.
pub(super) fn registers(operand: &str) -> impl Iterator<Item = Register> {
    operand.split(['(', ')', ',', ':', '{', '}', '*', ' ']).filter_map(Register::any)
}

/// Stores a value of eight bytes to an operand.
pub(super) fn write<'a>(to: &'a str, value: Value<'a>, state: &mut State<'a>) {
    match place(to, state) {
        OperandKind::Register(register) => state.set(register, value),
        OperandKind::Other => {
            state.vectors.join(&value.symbols);
        }
        OperandKind::Slot(at) => state.store(at, 8, value),
        OperandKind::Frame => state.store_somewhere(&value),
        OperandKind::Memory | OperandKind::Static(_) | OperandKind::Immediate(_) => {}
    }
}

/// Returns a symbol without an offset.
fn plain(symbol: &str) -> Option<&str> {
    let quoted = symbol.len() > 2 && symbol.starts_with('"') && symbol.ends_with('"');
    let named = symbol.chars().all(symbolic)
        && !symbol.starts_with(|c: char| c.is_ascii_digit())
        && !symbol.is_empty();
    (quoted || named).then(|| unquoted(symbol))
}

pub(super) fn number(text: &str) -> Option<i64> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text),
    };
    let value = match digits.strip_prefix("0x") {
        // Some numbers are 64-bit masks.
        Some(hex) => u64::from_str_radix(hex, 16).ok()?.cast_signed(),
        None => digits.parse::<u64>().ok()?.cast_signed(),
    };
    Some(value.wrapping_mul(sign))
}
