//! The kinds of types' values, and how they are passed.

use std::collections::HashMap;
use std::sync::Arc;

use addr2line::gimli::constants as dw;
use addr2line::gimli::{AttributeValue, DwAt};

use super::convention::{Class, Passing};
use super::debug_info::{Entry, Info};
use super::{Enumeration, Kind};

/// Names of typedefs and qualifiers around a type, and structures in each other.
const MOST_DEPTH: usize = 32;
/// Members of structures that are looked at for one type, and names of an enumeration.
const MOST_MEMBERS: usize = 1 << 12;
/// Bytes of all names of an enumeration.
const MOST_TEXT: usize = 1 << 16;

/// The kind of a type's values, and how they are passed.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    pub(super) kind: Kind,
    pub(super) passing: Passing,
}

/// The shapes of types that were asked for, by their offsets.
pub(super) type Shapes = HashMap<usize, Shape>;

impl Shape {
    pub(super) const UNCLEAR: Self = Self::hidden(Passing::Unclear);

    const fn hidden(passing: Passing) -> Self {
        Self { kind: Kind::Hidden, passing }
    }

    const fn integer(kind: Kind) -> Self {
        Self { kind, passing: Passing::Registers(Class::Integer, None) }
    }
}

/// Returns the shape of the type of an entry; `None` if it has no type.
pub(super) fn shape_of<'a>(info: &Info<'a>, of: &Entry<'a>, shapes: &mut Shapes) -> Option<Shape> {
    if !info.has(of, dw::DW_AT_type) {
        return None;
    }
    let ty = info.attribute(of, dw::DW_AT_type).and_then(|ty| stripped(info, ty));
    let Some(ty) = ty else { return Some(Shape::UNCLEAR) };
    let ty = ty?;
    let at = ty.offset();
    if let Some(known) = shapes.get(&at) {
        return Some(known.clone());
    }
    let shape = shape(info, &ty);
    shapes.insert(at, shape.clone());
    Some(shape)
}

/// Returns a type without typedefs and qualifiers. The inner `None` is `void`.
#[expect(clippy::option_option, reason = "see above")]
fn stripped<'a>(info: &Info<'a>, mut ty: Entry<'a>) -> Option<Option<Entry<'a>>> {
    for _ in 0..MOST_DEPTH {
        match ty.tag() {
            dw::DW_TAG_typedef
            | dw::DW_TAG_const_type
            | dw::DW_TAG_volatile_type
            | dw::DW_TAG_restrict_type
            | dw::DW_TAG_atomic_type => {
                if !ty.has(dw::DW_AT_type) {
                    return Some(None);
                }
                ty = info.attribute(&ty, dw::DW_AT_type)?;
            }
            _ => return Some(Some(ty)),
        }
    }
    None
}

fn shape<'a>(info: &Info<'a>, ty: &Entry<'a>) -> Shape {
    match ty.tag() {
        dw::DW_TAG_base_type => base(info, ty),
        dw::DW_TAG_pointer_type => match number(ty, dw::DW_AT_byte_size) {
            None | Some(8) if is_text(info, ty) => Shape::integer(Kind::Text),
            None | Some(8) => Shape::integer(Kind::Unsigned(8)),
            _ => Shape::UNCLEAR,
        },
        // A function or an array as a parameter is an address.
        dw::DW_TAG_reference_type
        | dw::DW_TAG_rvalue_reference_type
        | dw::DW_TAG_subroutine_type
        | dw::DW_TAG_unspecified_type => Shape::integer(Kind::Unsigned(8)),
        dw::DW_TAG_ptr_to_member_type => match info.attribute(ty, dw::DW_AT_type).map(|of| of.tag()) {
            Some(dw::DW_TAG_subroutine_type) => {
                Shape::hidden(Passing::Registers(Class::Integer, Some(Class::Integer)))
            }
            Some(_) => Shape::integer(Kind::Signed(8)),
            None => Shape::UNCLEAR,
        },
        dw::DW_TAG_enumeration_type => enumeration(info, ty),
        dw::DW_TAG_structure_type | dw::DW_TAG_class_type | dw::DW_TAG_union_type => {
            Shape::hidden(Layout::new(info).passing(ty))
        }
        dw::DW_TAG_array_type if ty.has(dw::DW_AT_GNU_vector) => Shape::hidden(vector(info, ty)),
        _ => Shape::UNCLEAR,
    }
}

/// Returns whether a pointer leads to characters, which a NUL may end.
fn is_text<'a>(info: &Info<'a>, pointer: &Entry<'a>) -> bool {
    let to = info.attribute(pointer, dw::DW_AT_type).and_then(|to| stripped(info, to)).flatten();
    to.is_some_and(|to| to.tag() == dw::DW_TAG_base_type && info.name(&to).as_deref() == Some("char"))
}

fn base<'a>(info: &Info<'a>, ty: &Entry<'a>) -> Shape {
    let Some(size) = number(ty, dw::DW_AT_byte_size) else { return Shape::UNCLEAR };
    let Some(AttributeValue::Encoding(encoding)) = ty.value(dw::DW_AT_encoding) else {
        return Shape::UNCLEAR;
    };
    let bytes = u8::try_from(size).unwrap_or(u8::MAX);
    let is_long_double = || info.name(ty).is_some_and(|name| name.contains("long double"));
    match (encoding, size) {
        (dw::DW_ATE_boolean, 1) => Shape::integer(Kind::Bool),
        (dw::DW_ATE_signed | dw::DW_ATE_signed_char, 1 | 2 | 4 | 8) => Shape::integer(Kind::Signed(bytes)),
        (
            dw::DW_ATE_unsigned | dw::DW_ATE_unsigned_char | dw::DW_ATE_UTF | dw::DW_ATE_boolean,
            1 | 2 | 4 | 8,
        ) => Shape::integer(Kind::Unsigned(bytes)),
        (dw::DW_ATE_signed | dw::DW_ATE_unsigned, 16) => Shape::hidden(Passing::Wide),
        (dw::DW_ATE_float, 4 | 8) => {
            Shape { kind: Kind::Float(bytes), passing: Passing::Registers(Class::Sse, None) }
        }
        (dw::DW_ATE_float, 16) | (dw::DW_ATE_complex_float, 32) if is_long_double() => {
            Shape::hidden(Passing::X87 { size })
        }
        (dw::DW_ATE_float | dw::DW_ATE_decimal_float, 2 | 4 | 8) | (dw::DW_ATE_complex_float, 4 | 8) => {
            Shape::hidden(Passing::Registers(Class::Sse, None))
        }
        (dw::DW_ATE_float | dw::DW_ATE_decimal_float, 16) => Shape::hidden(Passing::Vector),
        (dw::DW_ATE_complex_float, 16) => Shape::hidden(Passing::Registers(Class::Sse, Some(Class::Sse))),
        _ => Shape::UNCLEAR,
    }
}

/// Returns how a vector is passed. Larger ones depend on the processor that the code is for.
fn vector<'a>(info: &Info<'a>, ty: &Entry<'a>) -> Passing {
    let mut layout = Layout::new(info);
    match layout.size(ty, 0) {
        Some(8) => Passing::Registers(Class::Sse, None),
        Some(16) => Passing::Vector,
        _ => Passing::Unclear,
    }
}

fn enumeration<'a>(info: &Info<'a>, ty: &Entry<'a>) -> Shape {
    let Some(size @ (1 | 2 | 4 | 8)) = number(ty, dw::DW_AT_byte_size) else { return Shape::UNCLEAR };
    let bytes = u8::try_from(size).unwrap_or_default();
    let (mut names, mut text) = (Vec::new(), 0);
    let is_whole = info.children(ty, MOST_MEMBERS, |child| {
        let value = child.value(dw::DW_AT_const_value).and_then(|it| constant(&it, bytes));
        if child.tag() == dw::DW_TAG_enumerator
            && let (Some(value), Some(name)) = (value, info.name(child))
        {
            text += name.len();
            names.push((value, name));
        }
    });
    let underlying = info.attribute(ty, dw::DW_AT_type).and_then(|it| stripped(info, it)).flatten();
    let is_signed = match underlying.map(|it| base(info, &it).kind) {
        Some(Kind::Unsigned(_) | Kind::Bool) => false,
        Some(Kind::Signed(_)) => true,
        _ => names.iter().any(|(value, _)| *value < 0),
    };
    if !is_whole || text > MOST_TEXT {
        names.clear();
    }
    if !is_signed {
        // All bits that a value of this size does not have are zero.
        let mask = if bytes == 8 { -1 } else { (1_i64 << (8 * bytes)) - 1 };
        names.iter_mut().for_each(|(value, _)| *value &= mask);
    }
    names.sort_by_key(|(value, _)| *value);
    names.dedup_by_key(|(value, _)| *value);
    if names.is_empty() {
        return Shape::integer(if is_signed { Kind::Signed(bytes) } else { Kind::Unsigned(bytes) });
    }
    Shape::integer(Kind::Enumeration(Arc::new(Enumeration { bytes, is_signed, names })))
}

/// Returns a constant whose form says how long it is, but not whether it is signed: with the sign
/// of its own bits if it has as many as a value.
fn constant(value: &AttributeValue<super::location::Slice<'_>>, bytes: u8) -> Option<i64> {
    Some(match value {
        AttributeValue::Data1(it) if bytes > 1 => i64::from(*it),
        AttributeValue::Data2(it) if bytes > 2 => i64::from(*it),
        AttributeValue::Data4(it) if bytes > 4 => i64::from(*it),
        AttributeValue::Data1(it) => i64::from(it.cast_signed()),
        AttributeValue::Data2(it) => i64::from(it.cast_signed()),
        AttributeValue::Data4(it) => i64::from(it.cast_signed()),
        AttributeValue::Data8(it) | AttributeValue::Udata(it) => it.cast_signed(),
        AttributeValue::Sdata(it) => *it,
        _ => return None,
    })
}

fn number(entry: &Entry<'_>, name: DwAt) -> Option<u64> {
    entry.value(name)?.udata_value()
}

/// The layout of structures, as far as it decides how they are passed. The number of entries that
/// it looks at is bounded.
struct Layout<'i, 'a> {
    info: &'i Info<'a>,
    left: usize,
    /// The classes of both halves.
    classes: [Option<Class>; 2],
    /// Why it is not in registers, if it is not.
    verdict: Option<Passing>,
    align: u64,
}

impl<'i, 'a> Layout<'i, 'a> {
    fn new(info: &'i Info<'a>) -> Self {
        Self { info, left: MOST_MEMBERS, classes: [None; 2], verdict: None, align: 1 }
    }

    fn passing(mut self, ty: &Entry<'a>) -> Passing {
        let Some(size) = number(ty, dw::DW_AT_byte_size).filter(|_| !ty.has(dw::DW_AT_declaration)) else {
            return Passing::Unclear;
        };
        match ty.value(dw::DW_AT_calling_convention) {
            Some(AttributeValue::CallingConvention(dw::DW_CC_pass_by_reference)) => {
                return Passing::Registers(Class::Integer, None);
            }
            Some(AttributeValue::CallingConvention(dw::DW_CC_pass_by_value)) => (),
            _ if info_is_c(self.info, ty) => (),
            _ => return Passing::Unclear,
        }
        if size == 0 {
            return Passing::Nothing;
        }
        self.align = number(ty, dw::DW_AT_alignment).unwrap_or(1);
        self.add_members(ty, 0, 0);
        match (self.verdict, self.classes) {
            (Some(Passing::Unclear), _) => Passing::Unclear,
            _ if size > 16 => Passing::Memory { size, align: self.align },
            (Some(Passing::X87 { .. }), _) if size == 16 => Passing::X87 { size },
            (Some(_), _) => Passing::Memory { size, align: self.align },
            (None, [Some(first), None]) if size <= 8 => Passing::Registers(first, None),
            (None, [Some(Class::Integer), Some(Class::Integer)]) if self.align > 8 => Passing::Wide,
            (None, [Some(_), Some(_)]) if self.align > 8 => Passing::Unclear,
            (None, [Some(first), Some(second)]) => Passing::Registers(first, Some(second)),
            // Padding alone has no class.
            (None, [None, None]) => Passing::Nothing,
            _ => Passing::Unclear,
        }
    }

    fn add_members(&mut self, ty: &Entry<'a>, start: u64, depth: usize) {
        let mut members = Vec::new();
        let room = self.left;
        let is_whole = self.info.children(ty, room, |child| {
            let is_static = child.has(dw::DW_AT_external) || child.has(dw::DW_AT_declaration);
            if matches!(child.tag(), dw::DW_TAG_member | dw::DW_TAG_inheritance) && !is_static {
                members.push(child.clone());
            }
        });
        self.left = self.left.saturating_sub(members.len() + 1);
        if !is_whole || self.left == 0 || depth > MOST_DEPTH {
            self.verdict = Some(Passing::Unclear);
            return;
        }
        for member in members {
            self.add_member(&member, start, depth);
        }
    }

    fn add_member(&mut self, member: &Entry<'a>, start: u64, depth: usize) {
        let bits = number(member, dw::DW_AT_data_bit_offset);
        let offset = match (number(member, dw::DW_AT_data_member_location), bits) {
            (Some(bytes), _) => bytes,
            (None, Some(bits)) => bits / 8,
            // In a union, and of the first member in C++.
            (None, None) if !member.has(dw::DW_AT_data_member_location) => 0,
            _ => return self.verdict = Some(Passing::Unclear),
        };
        let Some(at) = start.checked_add(offset) else { return self.verdict = Some(Passing::Unclear) };
        if let Some(align) = number(member, dw::DW_AT_alignment) {
            self.align = self.align.max(align);
        }
        let ty = self.info.attribute(member, dw::DW_AT_type).and_then(|ty| stripped(self.info, ty)).flatten();
        let Some(ty) = ty else { return self.verdict = Some(Passing::Unclear) };
        if bits.is_some() || member.has(dw::DW_AT_bit_size) {
            let (first, len) = (
                bits.unwrap_or(at.saturating_mul(8)),
                number(member, dw::DW_AT_bit_size).unwrap_or(1).max(1),
            );
            let last = first.saturating_add(len - 1);
            let base = if bits.is_some() { start } else { 0 };
            let align = number(&ty, dw::DW_AT_byte_size).unwrap_or(1);
            self.align = self.align.max(align);
            self.put(base.saturating_add(first / 8), Class::Integer);
            return self.put(base.saturating_add(last / 8), Class::Integer);
        }
        self.add(&ty, at, depth + 1);
    }

    /// Adds a value at an offset.
    fn add(&mut self, ty: &Entry<'a>, at: u64, depth: usize) {
        if depth > MOST_DEPTH || self.left == 0 {
            return self.verdict = Some(Passing::Unclear);
        }
        self.left -= 1;
        if let Some(align) = number(ty, dw::DW_AT_alignment) {
            self.align = self.align.max(align);
        }
        match ty.tag() {
            dw::DW_TAG_structure_type | dw::DW_TAG_class_type | dw::DW_TAG_union_type => {
                self.add_members(ty, at, depth);
            }
            dw::DW_TAG_array_type if ty.has(dw::DW_AT_GNU_vector) => self.verdict = Some(Passing::Unclear),
            dw::DW_TAG_array_type => {
                let of =
                    self.info.attribute(ty, dw::DW_AT_type).and_then(|of| stripped(self.info, of)).flatten();
                let size = of.as_ref().and_then(|of| self.size(of, depth + 1)).filter(|size| *size != 0);
                let (Some(of), Some(size), Some(whole)) = (of, size, self.size(ty, depth + 1)) else {
                    return self.verdict = Some(Passing::Unclear);
                };
                // Elements beyond two halves change nothing.
                let count = (whole / size).min(17);
                (0..count).for_each(|element| self.add(&of, at.saturating_add(element * size), depth + 1));
            }
            _ => {
                let shape = shape_of_scalar(self.info, ty);
                let size = match shape.passing {
                    Passing::Registers(..) | Passing::Wide => self.size(ty, depth + 1),
                    Passing::X87 { size } => {
                        self.align = self.align.max(16);
                        self.verdict.get_or_insert(Passing::X87 { size });
                        return;
                    }
                    _ => None,
                };
                let Some(size) = size.filter(|size| (1..=32).contains(size)) else {
                    return self.verdict = Some(Passing::Unclear);
                };
                let natural = if ty_is_complex(ty) { size / 2 } else { size };
                self.align = self.align.max(natural);
                if !at.is_multiple_of(natural) {
                    // A packed structure is in memory as a whole.
                    self.verdict.get_or_insert(Passing::Memory { size: 0, align: 1 });
                }
                let class = match shape.passing {
                    Passing::Registers(class, _) => class,
                    _ => Class::Integer,
                };
                // Of 16 bytes in one vector register, the second half has a class of its own.
                if class == Class::Sse && size == 16 && !ty_is_complex(ty) {
                    self.verdict.get_or_insert(Passing::Unclear);
                }
                self.put(at, class);
                if size > 8 {
                    self.put(at.saturating_add(8), class);
                }
            }
        }
    }

    fn put(&mut self, at: u64, class: Class) {
        let half = usize::try_from(at / 8).unwrap_or(usize::MAX);
        let Some(known) = self.classes.get_mut(half) else { return };
        *known = Some(match *known {
            None | Some(Class::Sse) if class == Class::Sse => Class::Sse,
            _ => Class::Integer,
        });
    }

    /// Returns the bytes of a type's values.
    fn size(&mut self, ty: &Entry<'a>, depth: usize) -> Option<u64> {
        if let Some(size) = number(ty, dw::DW_AT_byte_size) {
            return Some(size);
        }
        match ty.tag() {
            dw::DW_TAG_pointer_type | dw::DW_TAG_reference_type | dw::DW_TAG_rvalue_reference_type => Some(8),
            dw::DW_TAG_array_type if depth < MOST_DEPTH && self.left != 0 => {
                self.left -= 1;
                let of = self.info.attribute(ty, dw::DW_AT_type).and_then(|of| stripped(self.info, of))??;
                let (mut count, mut is_known) = (1_u64, true);
                let is_whole = self.info.children(ty, 16, |range| {
                    if range.tag() == dw::DW_TAG_subrange_type {
                        let upper = number(range, dw::DW_AT_upper_bound).and_then(|it| it.checked_add(1));
                        let many = number(range, dw::DW_AT_count).or(upper);
                        // A flexible array has no bound, and takes no room.
                        count = count.saturating_mul(many.unwrap_or(0));
                        is_known &= many.is_none_or(|many| many < 1 << 48);
                    }
                });
                let size = self.size(&of, depth + 1)?;
                size.checked_mul(count).filter(|_| is_whole && is_known)
            }
            _ => None,
        }
    }
}

/// Returns the shape of a type that is neither an array nor a structure.
fn shape_of_scalar<'a>(info: &Info<'a>, ty: &Entry<'a>) -> Shape {
    match ty.tag() {
        // Its names don't matter.
        dw::DW_TAG_enumeration_type => Shape::integer(Kind::Unsigned(4)),
        dw::DW_TAG_base_type
        | dw::DW_TAG_pointer_type
        | dw::DW_TAG_reference_type
        | dw::DW_TAG_rvalue_reference_type
        | dw::DW_TAG_ptr_to_member_type => shape(info, ty),
        _ => Shape::UNCLEAR,
    }
}

fn ty_is_complex(ty: &Entry<'_>) -> bool {
    matches!(ty.value(dw::DW_AT_encoding), Some(AttributeValue::Encoding(dw::DW_ATE_complex_float)))
}

/// Returns whether a structure is one of C, whose copies are copies of bytes.
fn info_is_c<'a>(info: &Info<'a>, ty: &Entry<'a>) -> bool {
    let mut has_functions = false;
    let is_whole =
        info.children(ty, MOST_MEMBERS, |child| has_functions |= child.tag() == dw::DW_TAG_subprogram);
    ty.is_of_c() && is_whole && !has_functions
}
