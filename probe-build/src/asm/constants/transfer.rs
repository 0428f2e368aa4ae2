//! The effect of one instruction on the possible contents of registers and slots.
//!
//! Known instructions have an entry with the operands that they change. Any other instruction may
//! move the contents of any operand to any other operand.
//!
//! The analysis assumes:
//! - The first argument of a hook is a constant, a function's address. On each path to the call,
//!   the compiler has loaded it as a constant, in an instruction of this function, and since then
//!   has only moved it between registers and slots.
//! - It does not come from elsewhere: parameters, results of calls, data of the program, results of
//!   inline assembly. A register with such a value therefore holds no symbol.
//! - A table of constants made by the compiler has a symbol of its own (`.L…`, `CSWTCH…`). A
//!   value read from such an address, or computed from it, may be any symbol.
//! - The slots of the register allocator have no address that the program could hold. They are
//!   written and read at a fixed distance from the stack pointer, or from a register that points
//!   into the frame on every path (frame pointer, base pointer). Stores through other pointers
//!   therefore do not change them.

use super::operand::{OperandKind, address, number, place, read, result, write};
use super::state::{Frame, Load, Register, State, Symbols, Value};
use crate::asm::line::Instruction;
use crate::asm::statement::is_trap;
use std::collections::HashSet;

/// Names, or prefixes of names, of instructions that change only flags.
const READ: [&str; 12] = [
    "test", "ucomis", "comis", "ptest", "vptest", "vtestp", "vucomis", "vcomis", "nop", "prefetch", "endbr",
    "pause",
];

/// Prefixes of names of instructions that change their last operand, and no other register.
const LAST: [&str; 61] = [
    "mov", "lea", "add", "sub", "and", "or", "xor", "not", "neg", "inc", "dec", "set", "shl", "shr", "sal",
    "sar", "rol", "ror", "rcl", "rcr", "bts", "btr", "btc", "bsf", "bsr", "tzcnt", "lzcnt", "popcnt", "adc",
    "sbb", "cvt", "bswap", "sqrt", "max", "min", "unpck", "round", "blend", "crc32", "bls", "bextr", "bzhi",
    "pdep", "pext", "rsqrt", "rcp", "haddp", "hsubp", "insertps", "extractps", "shufp", "mulss", "mulsd",
    "mulp", "divss", "divsd", "divp", "dpp", "rorx", "andn", "cmpp",
];

/// Applies an instruction that is not a jump. `own` holds the functions that are defined in this
/// file.
pub(super) fn apply<'a>(it: &Instruction<'a>, own: &HashSet<&str>, state: &mut State<'a>) {
    let repeats = it.prefixes.iter().any(|prefix| prefix.starts_with("rep"));
    if (repeats && is_string(it.mnemonic)) || it.operands.iter().any(|operand| operand.starts_with("%es:")) {
        return strings(it, state);
    }
    match (it.mnemonic, &it.operands[..]) {
        ("call" | "callq", [target]) => call(target, own, state),
        ("push" | "pushq", [what]) => {
            let value = read(what, state);
            state.step(-8);
            write("(%rsp)", value, state);
        }
        ("pop" | "popq", [to]) => {
            let value = read("(%rsp)", state);
            state.step(8);
            write(to, value, state);
        }
        ("leave" | "leaveq", []) => {
            let frame = state.get(Register::RBP).frame;
            state.set(Register::RSP, Value::frame(frame));
            let saved = read("(%rsp)", state);
            state.set(Register::RBP, saved);
            state.step(8);
        }
        ("mov" | "movq" | "movabs" | "movabsq", [from, to]) => {
            let value = read(from, state);
            write(to, value, state);
        }
        ("movl", [from, to]) if Register::half(to).is_some() && (from.starts_with(['$', '%'])) => {
            let value = half(read(from, state));
            write(to, value, state);
        }
        ("lea" | "leaq", [from, to]) => {
            let value = address(from, state);
            write(to, value, state);
        }
        ("add" | "addq", [amount, to]) if is_number(amount) => step(amount, 1, to, state),
        ("sub" | "subq", [amount, to]) if is_number(amount) => step(amount, -1, to, state),
        ("and" | "andq", [mask, "%rsp"]) if mask.starts_with("$-") => state.realign(),
        ("xorl" | "xorq" | "xor" | "subl" | "subq" | "sub", [from, to]) if from == to => {
            write(to, Value::default(), state);
        }
        // A value this narrow is not an address. If it is a distance from a table, later code adds
        // the table's address.
        (name, [from, to]) if is_narrow(name) && from.contains('(') && Register::any(to).is_some() => {
            write(to, Value::default(), state);
        }
        (name, [from, to]) if name.starts_with("cmov") => {
            let mut value = half(read(from, state));
            value.join(&half(read(to, state)));
            write(to, value, state);
        }
        (name, operands) => other(name, operands, state),
    }
}

/// Returns the possible value after a move through 32 bits.
fn half(value: Value<'_>) -> Value<'_> {
    let symbols = match value.symbols {
        Symbols::One(mut symbol) if symbol.load == Load::Absolute => {
            symbol.load = Load::Absolute32;
            Symbols::One(symbol)
        }
        other => other,
    };
    Value { symbols, frame: if value.frame == Frame::No { Frame::No } else { Frame::Somewhere } }
}

/// Applies a call. The compiler may know which registers a function of the same file preserves
/// (gcc: `-fipa-ra`).
fn call(target: &str, own: &HashSet<&str>, state: &mut State<'_>) {
    let symbol = target.trim_end_matches("@PLT");
    if own.contains(symbol) {
        for register in Register::CALLER_SAVED {
            state.may_set(register, &Value::default());
        }
    } else {
        state.call();
    }
}

fn other<'a>(name: &str, operands: &[&'a str], state: &mut State<'a>) {
    let reads = READ.iter().any(|it| name.starts_with(it))
        || matches!(name, "bt" | "btw" | "btl" | "btq")
        || (name.starts_with("cmp") && !name.starts_with("cmpxchg") && !name.starts_with("cmpp"));
    let is_vector = name.starts_with('v')
        || (name.starts_with('p') && !name.starts_with("push") && !name.starts_with("pop"));
    match name {
        // String instructions may have no operands.
        _ if operands.is_empty() && is_string(name) => strings_alone(state),
        _ if reads || is_trap(name) => {}
        "cltq" | "cwtl" | "cbtw" => state.set(Register::RAX, Value::default()),
        "cqto" | "cltd" | "cwtd" => state.set(Register::RDX, Value::default()),
        "imul" | "imulw" | "imull" | "imulq" if operands.len() > 1 => last(operands, state),
        _ if ["mul", "imul", "div", "idiv"].iter().any(|it| name.strip_prefix(it).is_some_and(is_width)) => {
            state.set(Register::RAX, Value::default());
            state.set(Register::RDX, Value::default());
        }
        "mfence" | "lfence" | "sfence" | "emms" | "vzeroupper" | "ldmxcsr" | "hlt" | "int3" | "" => {}
        _ if name.contains("cmpestr") || name.contains("cmpistr") => {
            state.set(Register::RCX, Value::default());
        }
        _ if LAST.iter().any(|it| name.starts_with(it)) || is_vector || is_float(name) => {
            last(operands, state);
        }
        "stmxcsr" => last(operands, state),
        _ => unknown(name, operands, state),
    }
}

/// Applies an instruction that changes its last operand, up to the widest vector.
fn last<'a>(operands: &[&'a str], state: &mut State<'a>) {
    let Some((to, others)) = operands.split_last() else { return };
    let is_vector = |operand: &&str| operand.starts_with('%') && Register::any(operand).is_none();
    let width = operands.iter().filter(|it| is_vector(it)).map(|it| width(it)).max();
    let mut value = result(operands, state);
    if let Some(width) = width {
        // A move from or to vectors, whole or in part.
        if others.iter().any(is_vector) {
            value.symbols.join(&state.vectors);
        }
        for slot in others.iter().filter_map(|it| slot(it, state)) {
            for at in (0..width).step_by(8) {
                value.symbols.join(&state.slot(slot.saturating_add(at)).symbols);
            }
        }
    }
    match place(to, state) {
        OperandKind::Slot(at) => {
            state.overwrite(at);
            if value.symbols != Symbols::None {
                for at in (0..width.unwrap_or(8)).step_by(8).map(|it| at.saturating_add(it)) {
                    let mut both = state.slot(at);
                    both.join(&value);
                    state.store(at, 8, both);
                }
            }
        }
        OperandKind::Register(register) => state.set(register, value),
        OperandKind::Frame => state.store_somewhere(&Value::symbols(value.symbols)),
        OperandKind::Other => {
            state.vectors.join(&value.symbols);
        }
        OperandKind::Memory | OperandKind::Static(_) | OperandKind::Immediate(_) => {}
    }
}

fn slot(operand: &str, state: &State<'_>) -> Option<i64> {
    match place(operand, state) {
        OperandKind::Slot(at) => Some(at),
        _ => None,
    }
}

/// Returns the size in bytes of a vector register, or of a similar one.
fn width(register: &str) -> i64 {
    match register.as_bytes().get(1) {
        Some(b'x') => 16,
        Some(b'y') => 32,
        Some(b'z') => 64,
        _ => 8,
    }
}

/// Applies an unknown instruction: it may move the contents of its operands to any of them, and
/// change unnamed registers to data.
fn unknown<'a>(name: &str, operands: &[&'a str], state: &mut State<'a>) {
    let mut value = Value::default();
    for operand in operands {
        value.symbols.join(&read(operand, state).symbols);
    }
    for operand in operands {
        match place(operand, state) {
            OperandKind::Register(register) => state.may_set(register, &value),
            OperandKind::Slot(at) => {
                let mut both = state.slot(at);
                both.join(&value);
                state.store(at, 8, both);
            }
            OperandKind::Frame => state.store_somewhere(&value),
            OperandKind::Other => {
                state.vectors.join(&value.symbols);
            }
            _ => {}
        }
    }
    state.apply_opaque_code();
    if name == "enter" {
        state.set(Register::RSP, Value::frame(Frame::Somewhere));
        state.set(Register::RBP, Value::frame(Frame::Somewhere));
    }
}

/// Applies string instructions. They change their implicit registers, and copy no spilled values.
fn strings<'a>(it: &Instruction<'a>, state: &mut State<'a>) {
    if is_string(it.mnemonic) {
        strings_alone(state);
    } else {
        unknown(it.mnemonic, &it.operands, state);
    }
}

fn strings_alone(state: &mut State<'_>) {
    for register in [Register::RAX, Register::RCX, Register::RSI, Register::RDI] {
        state.may_set(register, &Value::default());
    }
}

fn is_string(name: &str) -> bool {
    ["movs", "stos", "lods", "scas", "cmps"].iter().any(|it| name.strip_prefix(it).is_some_and(is_width))
}

/// Returns whether this is an x87 instruction.
fn is_float(name: &str) -> bool {
    name.starts_with('f')
}

fn is_width(suffix: &str) -> bool {
    matches!(suffix, "" | "b" | "w" | "l" | "q")
}

/// Returns whether this loads less than eight bytes.
fn is_narrow(name: &str) -> bool {
    name.starts_with("movz")
        || matches!(
            name,
            "movb" | "movw" | "movl" | "movsbw" | "movsbl" | "movsbq" | "movswl" | "movswq" | "movslq"
        )
}

fn is_number(operand: &str) -> bool {
    operand.strip_prefix('$').is_some_and(|text| number(text).is_some())
}

/// Adds a number to an operand.
fn step<'a>(amount: &'a str, sign: i64, to: &'a str, state: &mut State<'a>) {
    let bytes = number(&amount[1..]).unwrap_or_default().wrapping_mul(sign);
    match Register::whole(to) {
        Some(register) => {
            let frame = state.get(register).frame.plus(bytes);
            let symbols = result(&[to], state).symbols;
            state.set(register, Value { symbols, frame });
        }
        None => last(&[amount, to], state),
    }
}
