//! Reads the debug information of a file: finds the functions of sites, and says where their values
//! are.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;

use addr2line::gimli::constants as dw;
use addr2line::gimli::{
    AttributeValue, DebugInfoOffset, DebuggingInformationEntry, DwAt, DwTag, Dwarf, DwarfSections,
    EndianSlice, LittleEndian, Section, SectionId, Unit, UnitOffset,
};
use object::{Object, ObjectSection, ObjectSymbol, ReadRef, SymbolKind};

use super::convention::places;
use super::frames::Frames;
use super::location::{Located, Location, Slice, locate, simple};
use super::types::{Shape, Shapes, shape_of};
use super::{Kind, Parameter, Place, Position, Signature, Site};
use crate::file::{MAX_TABLE_LEN, open};
use crate::symbols::stem;

/// How often one entry leads to another for an attribute.
const MOST_ORIGINS: usize = 8;
/// Parameters of a function.
const MOST_PARAMETERS: usize = 256;
/// Ranges of a function or a unit that are looked at.
const MOST_RANGES: usize = 1 << 16;
/// Bytes of a parameter's name.
const MOST_NAME: usize = 256;
/// DWARF's numbers of the registers that a called function keeps, such as a hook that still has to
/// look its call up: `rbx`, `rbp`, `r12` to `r15`.
const KEPT_BY_CALLS: [u16; 6] = [3, 6, 12, 13, 14, 15];
/// DWARF's number of `rsp`.
const RSP: u16 = 7;

/// Returns the signature at each site of the ELF file with these bytes, which has its debug
/// information itself; `None` where that says nothing.
pub fn signatures(file: &[u8], sites: &[Site]) -> Vec<Option<Signature>> {
    let read = || {
        let file = object::File::parse(file).ok()?;
        of_file(&file, &Frames::of(&file, sites), sites)
    };
    read().unwrap_or_else(|| vec![None; sites.len()])
}

/// The same of files: the debug information is in `symbols`.
pub(crate) fn signatures_of(path: &Path, symbols: &Path, sites: &[Site]) -> Vec<Option<Signature>> {
    let frames = || {
        let cache: object::ReadCache<File> = open(path)?;
        let file = object::File::parse(&cache).ok()?;
        Some(Frames::of(&file, sites))
    };
    let read = || {
        let cache: object::ReadCache<File> = open(symbols)?;
        let file = object::File::parse(&cache).ok()?;
        of_file(&file, &frames().unwrap_or_default(), sites)
    };
    read().unwrap_or_else(|| vec![None; sites.len()])
}

fn of_file<'data, R: ReadRef<'data>>(
    file: &object::File<'data, R>,
    frames: &Frames,
    sites: &[Site],
) -> Option<Vec<Option<Signature>>> {
    let mut left = MAX_TABLE_LEN;
    let sections = DwarfSections::load(|id| section(file, id, &mut left).ok_or(())).ok()?;
    let info = Info::new(sections.borrow(|section| EndianSlice::new(section, LittleEndian)));
    let found = info.functions(sites);
    let symbols = Symbols::of(file, &found);
    let mut shapes = Shapes::new();
    let signatures = sites.iter().zip(&found).map(|(site, found)| {
        let found = found.as_ref()?;
        info.signature(found, *site, &symbols, frames, &mut shapes)
    });
    Some(signatures.collect())
}

/// Returns the bytes of a section: none if it is not there, or not needed. Returns `None` if it is
/// too large, or can't be read.
fn section<'data, R: ReadRef<'data>>(
    file: &object::File<'data, R>,
    id: SectionId,
    left: &mut u64,
) -> Option<Cow<'data, [u8]>> {
    /// How many bytes one byte can stand for, where a section is compressed.
    const MOST_RATIO: u64 = 2048;
    let is_needed = !matches!(
        id,
        SectionId::DebugMacinfo
            | SectionId::DebugMacro
            | SectionId::DebugNames
            | SectionId::DebugAranges
            | SectionId::DebugTypes
    );
    let Some(section) = file.section_by_name(id.name()).filter(|_| is_needed) else {
        return Some(Cow::Borrowed(&[]));
    };
    let data = section.compressed_data().ok()?;
    // All sizes are claims.
    *left = left.checked_sub(section.size().max(data.uncompressed_size))?;
    (data.uncompressed_size / MOST_RATIO <= data.data.len() as u64).then_some(())?;
    data.decompress().ok()
}

/// The bindings of functions' symbols.
struct Symbols(HashMap<u64, Binding>);

/// The bindings that symbols at one address have together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Binding {
    /// Others may call it by its name.
    Global,
    Local,
    /// A compiler's own copy of a function, which may have other parameters.
    Copy,
}

impl Symbols {
    /// Reads those of the functions that were found.
    fn of<'data, R: ReadRef<'data>>(file: &object::File<'data, R>, found: &[Option<Found<'_>>]) -> Self {
        let mut starts: Vec<_> = found.iter().flatten().map(|it| it.start).collect();
        starts.sort_unstable();
        let mut bindings = HashMap::new();
        for symbol in file.symbols().chain(file.dynamic_symbols()) {
            let is_function = symbol.kind() == SymbolKind::Text && symbol.is_definition();
            if !is_function || starts.binary_search(&symbol.address()).is_err() {
                continue;
            }
            let Ok(name) = symbol.name() else { continue };
            let binding = match () {
                () if symbol.is_global() || symbol.is_weak() => Binding::Global,
                () if stem(name) != name => Binding::Copy,
                () => Binding::Local,
            };
            let known = bindings.entry(symbol.address()).or_insert(binding);
            if binding == Binding::Global || (binding == Binding::Copy && *known == Binding::Local) {
                *known = binding;
            }
        }
        Self(bindings)
    }
}

/// A unit, and what its first entry says of it.
pub(super) struct UnitData<'a> {
    unit: Unit<Slice<'a>>,
    /// Its offset in the section.
    start: usize,
    is_of_c: bool,
    is_of_gcc: bool,
}

/// An entry, with its unit.
#[derive(Clone)]
pub(super) struct Entry<'a> {
    unit: Rc<UnitData<'a>>,
    die: DebuggingInformationEntry<Slice<'a>>,
}

impl<'a> Entry<'a> {
    pub(super) fn tag(&self) -> DwTag {
        self.die.tag()
    }

    pub(super) fn has(&self, name: DwAt) -> bool {
        self.die.has_attr(name)
    }

    pub(super) fn value(&self, name: DwAt) -> Option<AttributeValue<Slice<'a>>> {
        self.die.attr_value(name)
    }

    /// Returns its offset in the section.
    pub(super) fn offset(&self) -> usize {
        self.unit.start.wrapping_add(self.die.offset().0)
    }

    pub(super) fn is_of_c(&self) -> bool {
        self.unit.is_of_c
    }
}

/// A function that has a site.
#[derive(Clone)]
struct Found<'a> {
    unit: Rc<UnitData<'a>>,
    /// The function itself, and the entry whose parameters are meant: itself, or a function that
    /// was inlined into it.
    function: UnitOffset,
    meant: UnitOffset,
    /// The start of its code.
    start: u64,
}

/// Debug information.
pub(super) struct Info<'a> {
    dwarf: Dwarf<Slice<'a>>,
    /// Offsets of units, ascending.
    starts: Vec<usize>,
    units: RefCell<HashMap<usize, Option<Rc<UnitData<'a>>>>>,
    /// Bytes that may still be passed over: entries that lead to each other in any way end.
    left: Cell<usize>,
}

impl<'a> Info<'a> {
    fn new(dwarf: Dwarf<Slice<'a>>) -> Self {
        let mut starts = Vec::new();
        let mut headers = dwarf.units();
        while let Ok(Some(header)) = headers.next() {
            starts.push(header.offset().0);
        }
        let left = dwarf.debug_info.reader().len().saturating_mul(64).saturating_add(1 << 20);
        Self { dwarf, starts, units: RefCell::default(), left: Cell::new(left) }
    }

    /// Returns the unit that begins at an offset.
    fn unit(&self, start: usize) -> Option<Rc<UnitData<'a>>> {
        if let Some(known) = self.units.borrow().get(&start) {
            return known.clone();
        }
        let read = || {
            let header = self.dwarf.unit_header(DebugInfoOffset(start)).ok()?;
            let unit = self.dwarf.unit(header).ok()?;
            let root = unit.entry(unit.header.root_offset()).ok()?;
            let language = match root.attr_value(dw::DW_AT_language) {
                Some(AttributeValue::Language(it)) => Some(it),
                _ => None,
            };
            let is_of_c = matches!(
                language,
                Some(dw::DW_LANG_C | dw::DW_LANG_C89 | dw::DW_LANG_C99 | dw::DW_LANG_C11 | dw::DW_LANG_C17)
            );
            let producer = root.attr_value(dw::DW_AT_producer);
            let producer = producer.and_then(|it| self.dwarf.attr_string(&unit, it).ok());
            let is_of_gcc = producer.is_some_and(|it| it.slice().starts_with(b"GNU "));
            Some(Rc::new(UnitData { unit, start, is_of_c, is_of_gcc }))
        };
        let unit = read();
        self.units.borrow_mut().insert(start, unit.clone());
        unit
    }

    /// Passes over this many bytes. Returns whether that may go on.
    fn pass(&self, bytes: usize) -> bool {
        let left = self.left.get().saturating_sub(bytes);
        self.left.set(left);
        left != 0
    }

    /// Returns an entry of a unit.
    fn entry(&self, unit: &Rc<UnitData<'a>>, at: UnitOffset) -> Option<Entry<'a>> {
        self.pass(1).then_some(())?;
        let die = unit.unit.entry(at).ok()?;
        Some(Entry { unit: Rc::clone(unit), die })
    }

    /// Returns the entry that a reference leads to.
    fn referred(&self, from: &Rc<UnitData<'a>>, value: &AttributeValue<Slice<'a>>) -> Option<Entry<'a>> {
        match *value {
            AttributeValue::UnitRef(at) => self.entry(from, at),
            AttributeValue::DebugInfoRef(DebugInfoOffset(at)) => {
                let unit = self.starts.partition_point(|start| *start <= at).checked_sub(1)?;
                let unit = self.unit(self.starts[unit])?;
                self.entry(&unit, UnitOffset(at.checked_sub(unit.start)?))
            }
            _ => None,
        }
    }

    /// Returns an attribute of an entry, or of the entries that it is made of.
    fn inherited(&self, of: &Entry<'a>, name: DwAt) -> Option<(Entry<'a>, AttributeValue<Slice<'a>>)> {
        let mut at = of.clone();
        for _ in 0..MOST_ORIGINS {
            if let Some(value) = at.value(name) {
                return Some((at, value));
            }
            at = self.origin(&at)?;
        }
        None
    }

    /// Returns the entry that this one is made of.
    fn origin(&self, of: &Entry<'a>) -> Option<Entry<'a>> {
        let origin = of.value(dw::DW_AT_abstract_origin).or_else(|| of.value(dw::DW_AT_specification))?;
        self.referred(&of.unit, &origin)
    }

    /// Returns whether an entry, or one that it is made of, has an attribute.
    pub(super) fn has(&self, of: &Entry<'a>, name: DwAt) -> bool {
        self.inherited(of, name).is_some()
    }

    /// Returns the entry to which an attribute leads.
    pub(super) fn attribute(&self, of: &Entry<'a>, name: DwAt) -> Option<Entry<'a>> {
        let (at, value) = self.inherited(of, name)?;
        self.referred(&at.unit, &value)
    }

    /// Returns a text of an entry, cut at the length of a name.
    fn text(&self, of: &Entry<'a>, name: DwAt) -> Option<String> {
        let (at, value) = self.inherited(of, name)?;
        let text = self.dwarf.attr_string(&at.unit.unit, value).ok()?;
        let text = text.slice();
        Some(String::from_utf8_lossy(&text[..text.len().min(MOST_NAME)]).into_owned())
    }

    pub(super) fn name(&self, of: &Entry<'a>) -> Option<String> {
        self.text(of, dw::DW_AT_name)
    }

    /// Calls `each` with the children of an entry. Returns whether these were all: there may be at
    /// most `most`.
    pub(super) fn children(&self, of: &Entry<'a>, most: usize, mut each: impl FnMut(&Entry<'a>)) -> bool {
        if !of.die.has_children() {
            return true;
        }
        let Ok(mut tree) = of.unit.unit.entries_tree(Some(of.die.offset())) else { return false };
        let Ok(root) = tree.root() else { return false };
        let (mut children, mut last, mut seen) = (root.children(), of.die.offset().0, 0);
        loop {
            match children.next() {
                Ok(None) => return true,
                Ok(Some(child)) if seen < most => {
                    seen += 1;
                    let die = child.entry().clone();
                    if !self.pass(die.offset().0.saturating_sub(last)) {
                        return false;
                    }
                    last = die.offset().0;
                    each(&Entry { unit: Rc::clone(&of.unit), die });
                }
                _ => return false,
            }
        }
    }
}

/// The functions of sites.
impl<'a> Info<'a> {
    fn functions(&self, sites: &[Site]) -> Vec<Option<Found<'a>>> {
        let mut order: Vec<usize> = (0..sites.len()).collect();
        order.sort_unstable_by_key(|at| sites[*at].addr);
        let mut found = vec![None; sites.len()];
        for start in &self.starts {
            let Some(unit) = self.unit(*start) else { continue };
            if self.has_site(&unit, sites, &order) {
                self.functions_of(&unit, sites, &order, &mut found);
            } else {
                self.units.borrow_mut().remove(start);
            }
        }
        found
    }

    /// Returns whether a unit may have one of these sites.
    fn has_site(&self, unit: &Rc<UnitData<'a>>, sites: &[Site], order: &[usize]) -> bool {
        let Ok(root) = unit.unit.entry(unit.unit.header.root_offset()) else { return false };
        let ranges = self.ranges(unit, &root);
        ranges.is_empty() || ranges.iter().any(|range| !within(sites, order, range).is_empty())
    }

    /// Returns the ranges of an entry's code. A sum of damaged addresses may be none. Linkers put
    /// discarded functions at 0.
    fn ranges(&self, unit: &UnitData<'a>, die: &DebuggingInformationEntry<Slice<'a>>) -> Vec<Range<u64>> {
        let mut ranges = self.claimed_ranges(unit, die);
        ranges.retain(|range| range.start != 0);
        ranges
    }

    fn claimed_ranges(
        &self,
        unit: &UnitData<'a>,
        die: &DebuggingInformationEntry<Slice<'a>>,
    ) -> Vec<Range<u64>> {
        let value = |name| die.attr_value(name);
        let address = |value| self.dwarf.attr_address(&unit.unit, value).ok().flatten();
        if let (Some(low), Some(high)) = (value(dw::DW_AT_low_pc).and_then(address), value(dw::DW_AT_high_pc))
        {
            let end = match high.udata_value() {
                Some(len) => low.checked_add(len),
                None => address(high),
            };
            return end.map(|end| low..end).into_iter().collect();
        }
        let list =
            value(dw::DW_AT_ranges).and_then(|it| self.dwarf.attr_ranges(&unit.unit, it).ok().flatten());
        let mut ranges = Vec::new();
        if let Some(mut list) = list {
            while let Ok(Some(range)) = list.next()
                && ranges.len() < MOST_RANGES
                && self.pass(1)
            {
                ranges.push(range.begin..range.end);
            }
        }
        ranges
    }

    fn functions_of(
        &self,
        unit: &Rc<UnitData<'a>>,
        sites: &[Site],
        order: &[usize],
        found: &mut [Option<Found<'a>>],
    ) {
        let mut entries = unit.unit.entries();
        let (mut function, mut last) = (None, 0);
        while let Ok(Some(die)) = entries.next_dfs() {
            if !self.pass(die.offset().0.saturating_sub(last)) {
                return;
            }
            last = die.offset().0;
            let is_inlined = match die.tag() {
                dw::DW_TAG_subprogram => false,
                dw::DW_TAG_inlined_subroutine => true,
                _ => continue,
            };
            if !is_inlined {
                function = Some(die.offset());
            }
            let Some(function) = function else { continue };
            for range in self.ranges(unit, die) {
                for site in within(sites, order, &range) {
                    if is_inlined && sites[*site].position != Position::Hook {
                        continue;
                    }
                    let start = match (&found[*site], is_inlined) {
                        (Some(found), true) => found.start,
                        _ => range.start,
                    };
                    let meant = die.offset();
                    found[*site] = Some(Found { unit: Rc::clone(unit), function, meant, start });
                }
            }
        }
    }
}

/// Returns the numbers of the sites in a range, of those in the order of their addresses.
fn within<'o>(sites: &[Site], order: &'o [usize], range: &Range<u64>) -> &'o [usize] {
    let first = order.partition_point(|at| sites[*at].addr < range.start);
    let after = order.partition_point(|at| sites[*at].addr < range.end);
    order.get(first..after).unwrap_or_default()
}

/// A parameter of a function, as its entries describe it.
struct Described<'a> {
    name: Option<String>,
    shape: Shape,
    located: Located,
    /// The entry with the location.
    at: Option<Entry<'a>>,
}

/// Signatures.
impl<'a> Info<'a> {
    fn signature(
        &self,
        found: &Found<'a>,
        site: Site,
        symbols: &Symbols,
        frames: &Frames,
        shapes: &mut Shapes,
    ) -> Option<Signature> {
        let function = self.entry(&found.unit, found.function)?;
        let meant = self.entry(&found.unit, found.meant)?;
        let described = self.parameters(&meant, site.addr, shapes)?;
        let result = shape_of(self, &meant, shapes);
        let passing: Vec<_> = described.iter().map(|it| it.shape.passing).collect();
        let (entry, returned) = places(&passing, result.as_ref().map(|it| it.passing));
        let follows = self.follows_convention(&function, found.start, symbols, &described);
        let parameters = described.iter().zip(entry).map(|(it, by_convention)| {
            let place = match (&it.shape.kind, site.position) {
                (Kind::Hidden, _) | (_, Position::Exit) => Place::Absent,
                (_, Position::Entry) => at_entry(it, by_convention, follows, function.unit.is_of_gcc),
                (_, Position::Hook) => at_hook(it, frame_base(&function, frames, site.addr)),
            };
            Parameter { name: it.name.clone(), kind: it.shape.kind.clone(), place }
        });
        let parameters = parameters.collect();
        let result = result.map(|it| {
            let is_known = follows && site.position == Position::Exit && it.kind != Kind::Hidden;
            (it.kind, if is_known { returned } else { Place::Absent })
        });
        let mut is_variadic = false;
        self.children(&meant, usize::MAX, |it| is_variadic |= it.tag() == dw::DW_TAG_unspecified_parameters);
        Some(Signature { parameters, result, is_variadic, follows_convention: follows })
    }

    /// Returns the parameters in their order, with their locations at an address. A function that
    /// has a general description may have lost parameters in its own.
    fn parameters(&self, function: &Entry<'a>, addr: u64, shapes: &mut Shapes) -> Option<Vec<Described<'a>>> {
        let list = |of: &Entry<'a>| {
            let mut all = Vec::new();
            let is_whole = self.children(of, usize::MAX, |child| {
                if child.tag() == dw::DW_TAG_formal_parameter && all.len() <= MOST_PARAMETERS {
                    all.push(child.clone());
                }
            });
            (is_whole && all.len() <= MOST_PARAMETERS).then_some(all)
        };
        let own = list(function)?;
        let general = match function.value(dw::DW_AT_abstract_origin) {
            Some(origin) => list(&self.referred(&function.unit, &origin)?)?,
            None => Vec::new(),
        };
        let origin = |it: &Entry<'a>| {
            let origin = it.value(dw::DW_AT_abstract_origin)?;
            self.referred(&it.unit, &origin).map(|origin| origin.offset())
        };
        let located = |of: Option<&Entry<'a>>| match of {
            None => Located::UNKNOWN,
            Some(of) => locate(&self.dwarf, &of.unit.unit, of.value(dw::DW_AT_location), addr),
        };
        let all = if general.is_empty() { &own } else { &general };
        let described = all.iter().map(|parameter| {
            let at = if general.is_empty() {
                Some(parameter.clone())
            } else {
                own.iter().find(|it| origin(it) == Some(parameter.offset())).cloned()
            };
            Described {
                name: self.name(parameter),
                // A parameter without a type is of no language here.
                shape: shape_of(self, parameter, shapes).unwrap_or(Shape::UNCLEAR),
                located: located(at.as_ref()),
                at,
            }
        });
        Some(described.collect())
    }

    /// Returns whether a function has its parameters and its result where the convention puts them.
    fn follows_convention(
        &self,
        function: &Entry<'a>,
        start: u64,
        symbols: &Symbols,
        parameters: &[Described<'a>],
    ) -> bool {
        match symbols.0.get(&start) {
            Some(Binding::Global) => true,
            Some(Binding::Local) if function.unit.is_of_gcc => true,
            // clang says of optimised functions that all their calls are described.
            Some(Binding::Local) => {
                let is_memory = |it: &Described<'a>| {
                    it.located.is_for_all
                        && matches!(it.located.location, Location::Frame { .. } | Location::Memory { .. })
                };
                function.unit.unit.header.version() >= 5
                    && !self.has(function, dw::DW_AT_call_all_calls)
                    && parameters.iter().all(is_memory)
            }
            Some(Binding::Copy) | None => false,
        }
    }
}

/// Returns where a parameter is at a call of a hook.
fn at_hook(parameter: &Described<'_>, frame: Option<(u16, i64)>) -> Place {
    let Located { location, is_for_all, .. } = parameter.located;
    let is_of_gcc = parameter.at.as_ref().is_some_and(|at| at.unit.is_of_gcc);
    let memory = |base: u16, offset: i64| match (u8::try_from(base), i32::try_from(offset)) {
        (Ok(number), Ok(offset)) if base == RSP || KEPT_BY_CALLS.contains(&base) => {
            Place::Memory { base: number, offset }
        }
        _ => Place::Absent,
    };
    match location {
        Location::Register(at) if !is_for_all && KEPT_BY_CALLS.contains(&at) => register(at),
        Location::Memory { base, offset } if !is_for_all || is_of_gcc => memory(base, offset),
        Location::Frame { offset } if !is_for_all || is_of_gcc => match frame {
            Some((base, distance)) => memory(base, offset.saturating_add(distance)),
            None => Place::Absent,
        },
        _ => Place::Absent,
    }
}

/// Returns the register that a function's locations count from at a site, and the distance.
fn frame_base(function: &Entry<'_>, frames: &Frames, site: u64) -> Option<(u16, i64)> {
    let AttributeValue::Exprloc(base) = function.value(dw::DW_AT_frame_base)? else { return None };
    match simple(base, &function.unit.unit) {
        Location::Register(at) if at != RSP => Some((at, 0)),
        Location::FrameStart => frames.at(site),
        _ => None,
    }
}

/// Returns where a parameter is at the function's entry. Where clang names no place, the function
/// does not use the parameter, and callers may pass anything.
fn at_entry(parameter: &Described<'_>, by_convention: Place, follows: bool, is_of_gcc: bool) -> Place {
    match parameter.located.location {
        Location::AtEntry(at) => register(at),
        // Another register for the whole function is filled behind the entry.
        Location::Register(at) if !parameter.located.is_for_all || register(at) == by_convention => {
            register(at)
        }
        Location::Unknown if is_next(parameter.located.next, by_convention) => by_convention,
        Location::Unknown if !is_of_gcc => Place::Absent,
        _ if follows => by_convention,
        _ => Place::Absent,
    }
}

/// Returns whether a location soon behind the entry is the register of the convention.
fn is_next(next: Location, by_convention: Place) -> bool {
    match next {
        Location::Register(at) => by_convention != Place::Absent && register(at) == by_convention,
        _ => false,
    }
}

/// Returns the place of a register that values are read from.
fn register(at: u16) -> Place {
    match u8::try_from(at) {
        Ok(at @ (0..=15 | 17..=24)) => Place::Register(at),
        _ => Place::Absent,
    }
}
