//! DWARF's locations of parameters, as far as they are a register or memory at a fixed distance.

use addr2line::gimli::{
    AttributeValue, Dwarf, EndianSlice, Expression, LittleEndian, LocationListEntry, Operation, Register,
    Unit,
};

pub(super) type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// Entries of a list that are looked at.
const MOST_ENTRIES: usize = 1 << 12;

/// The location of a parameter at a site.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Location {
    /// In a register, by its number.
    Register(u16),
    /// In memory, this far from a register.
    Memory { base: u16, offset: i64 },
    /// In memory, this far from the base of the function's frame.
    Frame { offset: i64 },
    /// The value that a register had at the function's entry.
    AtEntry(u16),
    /// The beginning of the function's frame, as its caller left the stack.
    FrameStart,
    /// Computed from a register.
    Computed,
    /// Elsewhere, or in no place.
    Unknown,
}

/// The locations that an attribute gives for an address.
#[derive(Clone, Copy, Debug)]
pub(super) struct Located {
    pub(super) location: Location,
    /// Whether it is one for the whole function.
    pub(super) is_for_all: bool,
    /// The first location behind the address, if it begins there soon.
    pub(super) next: Location,
}

impl Located {
    pub(super) const UNKNOWN: Self =
        Self { location: Location::Unknown, is_for_all: false, next: Location::Unknown };
}

/// How far behind an address the next location may begin: behind an `endbr64`, a site, and NOPs
/// that align it.
const SOON: u64 = 24;

/// Returns the location that an attribute gives for an address.
pub(super) fn locate(
    dwarf: &Dwarf<Slice<'_>>,
    unit: &Unit<Slice<'_>>,
    value: Option<AttributeValue<Slice<'_>>>,
    addr: u64,
) -> Located {
    match value {
        Some(AttributeValue::Exprloc(expression)) => {
            Located { location: simple(expression, unit), is_for_all: true, next: Location::Unknown }
        }
        Some(list) => listed(dwarf, unit, list, addr).unwrap_or(Located::UNKNOWN),
        None => Located::UNKNOWN,
    }
}

fn listed(
    dwarf: &Dwarf<Slice<'_>>,
    unit: &Unit<Slice<'_>>,
    list: AttributeValue<Slice<'_>>,
    addr: u64,
) -> Option<Located> {
    let mut list = dwarf.attr_locations(unit, list).ok()??;
    let (mut found, mut first) = (Located::UNKNOWN, u64::MAX);
    for _ in 0..MOST_ENTRIES {
        let Some(LocationListEntry { range, data }) = list.next().ok()? else { break };
        if (range.begin..range.end).contains(&addr) {
            found.location = simple(data, unit);
            break;
        }
        if (addr..addr.saturating_add(SOON)).contains(&range.begin) && range.begin < first {
            (found.next, first) = (simple(data, unit), range.begin);
        }
    }
    Some(found)
}

/// Returns the location of a simple expression.
pub(super) fn simple(expression: Expression<Slice<'_>>, unit: &Unit<Slice<'_>>) -> Location {
    let mut operations = expression.operations(unit.encoding());
    let mut next = || operations.next().ok().flatten();
    let (first, second, third) = (next(), next(), next());
    match (first, second, third) {
        (Some(Operation::Register { register: Register(at) }), None, None) => Location::Register(at),
        (Some(Operation::RegisterOffset { register: Register(base), offset, base_type }), None, None)
            if base_type.0 == 0 =>
        {
            Location::Memory { base, offset }
        }
        (Some(Operation::FrameOffset { offset }), None, None) => Location::Frame { offset },
        (Some(Operation::CallFrameCFA), None, None) => Location::FrameStart,
        (Some(Operation::EntryValue { expression }), Some(Operation::StackValue), None) => {
            let inner = Expression(expression);
            let mut operations = inner.operations(unit.encoding());
            match (operations.next(), operations.next()) {
                (Ok(Some(Operation::Register { register: Register(at) })), Ok(None)) => Location::AtEntry(at),
                _ => Location::Unknown,
            }
        }
        (Some(Operation::Register { .. } | Operation::RegisterOffset { .. }), Some(_), _) => {
            Location::Computed
        }
        _ => Location::Unknown,
    }
}
