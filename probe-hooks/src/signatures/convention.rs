//! The calling convention of x86-64 (System V psABI, 3.2.3): the registers and the parts of the
//! stack that have parameters, and the result.

use super::{Kind, Place};

/// The registers of integers, in their order, by DWARF's numbers: rdi, rsi, rdx, rcx, r8, r9.
pub const INTEGERS: [u8; 6] = [5, 4, 1, 2, 8, 9];
/// The number of vector registers that pass parameters, from `xmm0`.
const VECTORS: u8 = 8;
/// DWARF's numbers of `xmm0`, `rax` and `rsp`.
const XMM0: u8 = 17;
const RAX: u8 = 0;
const RSP: u8 = 7;

/// The class of eight bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Class {
    Integer,
    Sse,
}

/// How values of a type are passed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Passing {
    /// In registers, one for each class, or all on the stack.
    Registers(Class, Option<Class>),
    /// As two registers of integers, but with an alignment on the stack that compilers differ in: a
    /// number of 128 bits.
    Wide,
    /// In one vector register, or in 16 bytes of the stack.
    Vector,
    /// In memory: bytes, and their alignment.
    Memory { size: u64, align: u64 },
    /// A `long double`, or something like it: in memory, but returned in registers of x87.
    X87 { size: u64 },
    /// Not at all: an empty structure.
    Nothing,
    /// By rules that the debug information does not tell.
    Unclear,
}

/// Returns the place of each parameter at a function's entry, where the return address is on top of
/// the stack, and the place of the result at its exit. A value in two registers has no place here.
pub(super) fn places(parameters: &[Passing], result: Option<Passing>) -> (Vec<Place>, Place) {
    let mut state = State { integers: 0, vectors: 0, stack: Some(0), is_clear: true };
    let returned = match result {
        Some(Passing::Registers(Class::Integer, None)) => Place::Register(RAX),
        Some(Passing::Registers(Class::Sse, None)) => Place::Register(XMM0),
        Some(Passing::Memory { .. }) => {
            // The caller passes the address of the memory.
            state.integers = 1;
            Place::Absent
        }
        Some(Passing::Unclear) => {
            state.is_clear = false;
            Place::Absent
        }
        _ => Place::Absent,
    };
    (parameters.iter().map(|it| state.next(*it)).collect(), returned)
}

/// Returns the place of each parameter of these kinds at a function's entry; `None` if the kind of
/// one does not tell how it is passed.
pub fn entry_places<'a>(parameters: impl IntoIterator<Item = &'a Kind>) -> Option<Vec<Place>> {
    let passing = parameters.into_iter().map(|kind| match kind {
        Kind::Hidden => None,
        Kind::Float(_) => Some(Passing::Registers(Class::Sse, None)),
        _ => Some(Passing::Registers(Class::Integer, None)),
    });
    Some(places(&passing.collect::<Option<Vec<_>>>()?, None).0)
}

/// Returns how many words of the stack have parameters of these kinds; `None` as above.
pub fn stack_words<'a>(parameters: impl IntoIterator<Item = &'a Kind>) -> Option<usize> {
    let is_on_stack = |place: &&Place| matches!(place, Place::Memory { .. });
    entry_places(parameters).map(|places| places.iter().filter(is_on_stack).count())
}

/// The registers and the part of the stack that are in use.
struct State {
    integers: u8,
    vectors: u8,
    /// Bytes of the stack in use, if that is known.
    stack: Option<u64>,
    is_clear: bool,
}

impl State {
    fn next(&mut self, passing: Passing) -> Place {
        if !self.is_clear {
            return Place::Absent;
        }
        match passing {
            Passing::Registers(first, second) => self.registers(first, second),
            Passing::Wide if usize::from(self.integers) + 2 > INTEGERS.len() => {
                self.stack = None;
                Place::Absent
            }
            Passing::Wide => self.registers(Class::Integer, Some(Class::Integer)),
            Passing::Vector if self.vectors == VECTORS => {
                self.stack = None;
                Place::Absent
            }
            Passing::Vector => self.registers(Class::Sse, None),
            Passing::Memory { size, align } => self.on_stack(size, align),
            Passing::X87 { size } => self.on_stack(size, 16),
            Passing::Nothing => Place::Absent,
            Passing::Unclear => {
                self.is_clear = false;
                Place::Absent
            }
        }
    }

    fn registers(&mut self, first: Class, second: Option<Class>) -> Place {
        let classes = || [Some(first), second].into_iter().flatten();
        let needs = |class| u8::try_from(classes().filter(|it| *it == class).count()).unwrap_or(u8::MAX);
        let (integers, vectors) = (needs(Class::Integer), needs(Class::Sse));
        let has_room =
            usize::from(self.integers + integers) <= INTEGERS.len() && self.vectors + vectors <= VECTORS;
        if !has_room {
            let place = self.on_stack(if second.is_some() { 16 } else { 8 }, 8);
            return if second.is_some() { Place::Absent } else { place };
        }
        let place = match first {
            Class::Integer => Place::Register(INTEGERS[usize::from(self.integers)]),
            Class::Sse => Place::Register(XMM0 + self.vectors),
        };
        self.integers += integers;
        self.vectors += vectors;
        if second.is_some() { Place::Absent } else { place }
    }

    fn on_stack(&mut self, size: u64, align: u64) -> Place {
        /// Bytes of all parameters of a call.
        const MOST: u64 = 1 << 20;
        let start = self.stack.map(|used| used.next_multiple_of(align.clamp(8, 16)));
        // Beyond 16, the distance from the stack pointer is not constant.
        let is_known = |end: &u64| align <= 16 && *end <= MOST;
        let end = start.and_then(|start| start.checked_add(size)).filter(is_known);
        self.stack = end.map(|end| end.next_multiple_of(8));
        match (end, start.and_then(|start| i32::try_from(start + 8).ok())) {
            (Some(_), Some(offset)) => Place::Memory { base: RSP, offset },
            _ => Place::Absent,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INT: Passing = Passing::Registers(Class::Integer, None);
    const FLOAT: Passing = Passing::Registers(Class::Sse, None);
    const PAIR: Passing = Passing::Registers(Class::Integer, Some(Class::Integer));
    const MIXED: Passing = Passing::Registers(Class::Integer, Some(Class::Sse));
    const LARGE: Passing = Passing::Memory { size: 20, align: 4 };
    const LONG_DOUBLE: Passing = Passing::X87 { size: 16 };

    /// Returns places as words: the register, or `[offset]`.
    fn words(parameters: &[Passing], result: Option<Passing>) -> Vec<String> {
        const NAMES: [&str; 10] = ["rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", "r8", "r9"];
        let word = |place: &Place| match place {
            Place::Absent => "-".to_owned(),
            Place::Register(at @ 17..) => format!("xmm{}", at - 17),
            Place::Register(at) => NAMES[usize::from(*at)].to_owned(),
            Place::Memory { base, offset } => {
                assert_eq!(*base, RSP);
                format!("[{offset}]")
            }
        };
        let (places, result) = places(parameters, result);
        places.iter().chain([&result]).map(word).collect()
    }

    #[test]
    fn scalars_go_in_order() {
        assert_eq!(words(&[INT, FLOAT, INT], Some(INT)), ["rdi", "xmm0", "rsi", "rax"]);
        let many = [INT; 8];
        assert_eq!(words(&many, None)[..], ["rdi", "rsi", "rdx", "rcx", "r8", "r9", "[8]", "[16]", "-"]);
        let floats = words(&[FLOAT; 10], Some(FLOAT));
        assert_eq!(floats[7..], ["xmm7", "[8]", "[16]", "xmm0"]);
    }

    #[test]
    fn what_is_not_shown_takes_its_room() {
        assert_eq!(words(&[PAIR, INT], None), ["-", "rdx", "-"]);
        assert_eq!(words(&[Passing::Wide, INT], None), ["-", "rdx", "-"]);
        assert_eq!(words(&[MIXED, INT, FLOAT], None), ["-", "rsi", "xmm1", "-"]);
        assert_eq!(words(&[LARGE, INT], None), ["[8]", "rdi", "-"]);
        // One register is left, so both halves are on the stack, and a scalar takes the register.
        assert_eq!(words(&[INT, INT, INT, INT, INT, PAIR, INT, INT], None)[5..8], ["-", "r9", "[24]"]);
        assert_eq!(words(&[LONG_DOUBLE, INT], Some(LONG_DOUBLE)), ["[8]", "rdi", "-"]);
        assert_eq!(words(&[Passing::Nothing, INT], None), ["-", "rdi", "-"]);
    }

    #[test]
    fn words_of_the_stack_are_those_beyond_the_registers() {
        let (int, float) = (Kind::Signed(4), Kind::Float(4));
        let of = |ints, floats| stack_words([[&int].repeat(ints), [&float].repeat(floats)].concat());
        assert_eq!([of(6, 8), of(7, 8), of(6, 10), of(8, 9)], [0, 1, 2, 3].map(Some));
        assert_eq!(stack_words([&int, &Kind::Hidden]), None);
    }

    #[test]
    fn a_result_in_memory_takes_the_first_register() {
        assert_eq!(words(&[INT], Some(LARGE)), ["rsi", "-"]);
        assert_eq!(words(&[INT], Some(PAIR)), ["rdi", "-"]);
    }

    #[test]
    fn nothing_is_guessed_after_what_is_unclear() {
        assert_eq!(words(&[INT, Passing::Unclear, INT, FLOAT], Some(INT)), ["rdi", "-", "-", "-", "rax"]);
        assert_eq!(words(&[INT], Some(Passing::Unclear)), ["-", "-"]);
        let aligned = Passing::Memory { size: 64, align: 32 };
        assert_eq!(words(&[aligned, INT, LARGE], None), ["-", "rdi", "-", "-"]);
        let split = [INT, INT, INT, INT, INT, Passing::Wide, INT, INT];
        assert_eq!(words(&split, None)[4..], ["r8", "-", "r9", "-", "-"]);
        let vectors = [&[Passing::Vector; 9][..], &[LARGE, INT]].concat();
        assert_eq!(words(&vectors, None)[7..], ["xmm7", "-", "-", "rdi", "-"]);
    }
}
