//! What one instruction does to what is known.
//!
//! Instructions are known by name, with what they change; of any other, everything is unknown afterwards. Registers
//! within parentheses are read only, but for the string instructions.
//!
//! Stores through pointers, and calls, are taken to leave the slots of the frame alone. This is sound for the question
//! asked here: what a hook is called with is a constant, and a compiler loads a constant from the frame only if its
//! register allocator has spilled it there. Spill slots have no address that a program could hold; they are written by
//! stores to a fixed offset from the stack or frame pointer, on every way to a load, and those are followed.

use super::line::{Instruction, symbolic, unquoted};
use super::state::{Register, State, Value};

/// Names, or beginnings of names, of instructions that change nothing but flags.
const READ: [&str; 12] = [
    "test", "ucomis", "comis", "ptest", "vptest", "vtestp", "vucomis", "vcomis", "nop", "prefetch", "endbr",
    "pause",
];

/// Beginnings of names of instructions that change their last operand, and no other general register.
const LAST: [&str; 59] = [
    "mov",
    "lea",
    "add",
    "sub",
    "and",
    "or",
    "xor",
    "not",
    "neg",
    "inc",
    "dec",
    "set",
    "cmov",
    "shl",
    "shr",
    "sal",
    "sar",
    "rol",
    "ror",
    "rcl",
    "rcr",
    "bts",
    "btr",
    "btc",
    "bsf",
    "bsr",
    "tzcnt",
    "lzcnt",
    "popcnt",
    "adc",
    "sbb",
    "cvt",
    "bswap",
    "sqrt",
    "max",
    "min",
    "unpck",
    "round",
    "blend",
    "crc32",
    "bls",
    "bextr",
    "bzhi",
    "pdep",
    "pext",
    "rsqrt",
    "rcp",
    "haddp",
    "hsubp",
    "insertps",
    "extractps",
    "shufp",
    "mulss",
    "mulsd",
    "mulp",
    "divss",
    "divsd",
    "divp",
    "dpp",
];

/// What an operand is.
enum Place<'s> {
    Register(Register),
    /// Some vector register or the like.
    Other,
    /// Memory at a known address in the frame.
    Slot(i64),
    /// Memory of a symbol's own, or of the thread.
    Static(&'s str),
    /// Memory somewhere.
    Memory,
    Immediate(&'s str),
}

/// Applies an instruction that is not a jump.
pub(super) fn apply<'a>(it: &Instruction<'a>, state: &mut State<'a>) {
    let repeats = it.prefixes.iter().any(|prefix| prefix.starts_with("rep"));
    if (repeats && is_string(it.mnemonic)) || it.operands.iter().any(|operand| operand.starts_with("%es:")) {
        return strings(it.mnemonic, state);
    }
    match (it.mnemonic, &it.operands[..]) {
        ("call" | "callq", [target]) => call(target, state),
        ("push" | "pushq", [what]) => {
            let value = value(what, state);
            state.step(-8);
            match state.stack(Register::RSP) {
                Some(at) => state.store(at, 8, value),
                None => state.forget_slots(),
            }
        }
        ("pop" | "popq", [to]) => {
            let value = state.stack(Register::RSP).and_then(|at| state.slot(at));
            state.step(8);
            write(to, 8, value, state);
        }
        ("leave" | "leaveq", []) => {
            let frame = state.stack(Register::RBP);
            state.set(Register::RSP, frame.map(Value::Stack));
            state.set(Register::RBP, frame.and_then(|at| state.slot(at)));
            state.step(8);
        }
        ("mov" | "movq" | "movabs" | "movabsq", [from, to]) => {
            let value = value(from, state);
            write(to, 8, value, state);
        }
        ("movl", [from, to]) if from.starts_with('$') && Register::half(to).is_some() => {
            let value = value(from, state);
            state.set(Register::half(to).unwrap_or(Register::RAX), value);
        }
        ("lea" | "leaq", [from, to]) => {
            let value = match place(from, state) {
                Place::Slot(at) => Some(Value::Stack(at)),
                Place::Static(symbol) => plain(symbol).map(Value::Symbol),
                _ => None,
            };
            write(to, 8, value, state);
        }
        ("add" | "addq", [amount, "%rsp"]) if amount.starts_with('$') => step(amount, 1, state),
        ("sub" | "subq", [amount, "%rsp"]) if amount.starts_with('$') => step(amount, -1, state),
        ("and" | "andq", [mask, "%rsp"]) if mask.starts_with("$-") => state.realign(),
        (name, operands) => other(name, operands, state),
    }
}

fn call(target: &str, state: &mut State<'_>) {
    // These return more than once: what has changed since is not seen by going through the lines.
    if ["setjmp", "vfork", "getcontext"].iter().any(|it| target.contains(it)) {
        *state = State::unknown(state.stack(Register::RSP));
        return;
    }
    state.call();
}

fn other<'a>(name: &str, operands: &[&'a str], state: &mut State<'a>) {
    let reads = READ.iter().any(|it| name.starts_with(it))
        || matches!(name, "bt" | "btw" | "btl" | "btq")
        || (name.starts_with("cmp") && !name.starts_with("cmpxchg"));
    let vector = name.starts_with('v')
        || (name.starts_with('p') && !name.starts_with("push") && !name.starts_with("pop"));
    match name {
        // String instructions may go without operands.
        _ if operands.is_empty() && (name.starts_with("mov") || name.starts_with("cmp")) => {
            strings(name, state);
        }
        _ if reads => {}
        "cltq" | "cwtl" | "cbtw" => state.set(Register::RAX, None),
        "cqto" | "cltd" | "cwtd" => state.set(Register::RDX, None),
        "imul" | "imulw" | "imull" | "imulq" if operands.len() > 1 => last(operands, state),
        _ if ["mul", "imul", "div", "idiv"].iter().any(|it| name.strip_prefix(it).is_some_and(is_width)) => {
            state.set(Register::RAX, None);
            state.set(Register::RDX, None);
        }
        _ if name.starts_with("cmpxchg") => {
            state.set(Register::RAX, None);
            state.set(Register::RDX, None);
            last(operands, state);
        }
        _ if name.starts_with("xchg") || name.starts_with("xadd") || name.starts_with("mulx") => {
            for operand in operands {
                write(operand, 8, None, state);
            }
        }
        _ if name.contains("cmpestr") || name.contains("cmpistr") => state.set(Register::RCX, None),
        _ if LAST.iter().any(|it| name.starts_with(it)) || vector || is_float(name) => last(operands, state),
        "mfence" | "lfence" | "sfence" | "emms" | "ldmxcsr" | "ud2" | "hlt" | "int3" | "" => {}
        "stmxcsr" => last(operands, state),
        _ => *state = State::unknown(None),
    }
}

/// The last operand is changed, up to the widest vector.
fn last<'a>(operands: &[&'a str], state: &mut State<'a>) {
    if let Some(last) = operands.last() {
        write(last, 64, None, state);
    }
}

/// A value of up to `bytes` bytes goes to an operand.
fn write<'a>(to: &str, bytes: i64, value: Option<Value<'a>>, state: &mut State<'a>) {
    match place(to, state) {
        Place::Register(register) => state.set(register, value.filter(|_| Register::whole(to).is_some())),
        Place::Slot(at) => state.store(at, bytes, value.filter(|_| bytes == 8)),
        // No frame at a known place any more.
        Place::Memory if matches!(base(to), "%rsp" | "%rbp") => state.forget_slots(),
        Place::Memory | Place::Static(_) | Place::Other | Place::Immediate(_) => {}
    }
}

/// The string instructions write somewhere, and change the registers that they go by.
fn strings(name: &str, state: &mut State<'_>) {
    if !is_string(name) {
        *state = State::unknown(None);
        return;
    }
    for register in [Register::RAX, Register::RCX, Register::RSI, Register::RDI] {
        state.set(register, None);
    }
    state.forget_slots();
}

fn is_string(name: &str) -> bool {
    ["movs", "stos", "lods", "scas", "cmps"].iter().any(|it| name.starts_with(it))
}

/// The x87 instructions, but for those that store all of its state.
fn is_float(name: &str) -> bool {
    name.starts_with('f')
        && !["fx", "fnsave", "fsave", "fnstenv", "fstenv"].iter().any(|it| name.starts_with(it))
}

fn is_width(suffix: &str) -> bool {
    matches!(suffix, "" | "b" | "w" | "l" | "q")
}

fn step(amount: &str, sign: i64, state: &mut State<'_>) {
    match number(&amount[1..]) {
        Some(bytes) => state.step(bytes.saturating_mul(sign)),
        None => state.set(Register::RSP, None),
    }
}

/// What is within an operand's parentheses.
fn base(operand: &str) -> &str {
    operand.rsplit_once('(').map_or("", |(_, base)| base.trim_end_matches(')'))
}

/// The address that an operand stands for, if it is known.
fn value<'a>(operand: &'a str, state: &State<'a>) -> Option<Value<'a>> {
    match place(operand, state) {
        Place::Register(register) => state.get(register).filter(|_| Register::whole(operand).is_some()),
        Place::Slot(at) => state.slot(at),
        Place::Static(symbol) => plain(symbol.strip_suffix("@GOTPCREL")?).map(Value::Symbol),
        Place::Immediate(symbol) => plain(symbol).map(Value::Symbol),
        Place::Other | Place::Memory => None,
    }
}

/// A symbol, without any number added to it.
fn plain(symbol: &str) -> Option<&str> {
    let quoted = symbol.len() > 2 && symbol.starts_with('"') && symbol.ends_with('"');
    let named = symbol.chars().all(symbolic)
        && !symbol.starts_with(|c: char| c.is_ascii_digit())
        && !symbol.is_empty();
    (quoted || named).then(|| unquoted(symbol))
}

fn place<'s>(operand: &'s str, state: &State<'_>) -> Place<'s> {
    if let Some(immediate) = operand.strip_prefix('$') {
        return Place::Immediate(immediate);
    }
    if operand.starts_with('%') && !operand.contains(':') {
        return Register::any(operand).map_or(Place::Other, Place::Register);
    }
    if operand.starts_with("%fs:") || operand.starts_with("%gs:") {
        return Place::Static("");
    }
    let Some((offset, _)) = operand.rsplit_once('(') else { return Place::Static(operand) };
    match base(operand) {
        "%rip" => Place::Static(offset),
        base => {
            let frame = Register::whole(base).and_then(|base| state.stack(base));
            let offset = if offset.is_empty() { Some(0) } else { number(offset) };
            frame
                .zip(offset)
                .and_then(|(frame, offset)| frame.checked_add(offset))
                .map_or(Place::Memory, Place::Slot)
        }
    }
}

fn number(text: &str) -> Option<i64> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text),
    };
    let value = match digits.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(hex, 16).ok()?,
        None => digits.parse::<i64>().ok()?,
    };
    Some(value * sign)
}
