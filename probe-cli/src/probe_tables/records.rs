//! Records: one for each site, and one for each type of a field; and the stubs that lead from a
//! site to its definition.

use std::collections::BTreeMap;

use probe_core::Type;
use probe_hooks::linkage_word;

use super::object::Unread;
use super::probe::{Form, SITE_LEN, Site};
use crate::elf::{Image, Pointer, Pointers, Problem};
use crate::text::hex;

/// The version that this reader knows.
const VERSION: u8 = 1;
const SITE_RECORD: u8 = 16;
const FIELD_RECORD: u8 = 12;
/// Most symbols of other objects that are told apart.
const MAX_SYMBOLS: usize = 1000;

#[derive(Clone, Copy)]
pub(super) enum Record {
    Site(Site),
    /// A field's number, and its type; `None` if this reader does not know the type.
    Type(u8, Option<Type>),
}

/// Reads records, and finds out where their stubs lead.
pub(super) struct Records<'a> {
    pub(super) image: &'a Image,
    pub(super) pointers: &'a Pointers<'a>,
    pub(super) unread: &'a mut Unread,
    /// Symbols of stubs in other objects, with the number of sites of each.
    pub(super) elsewhere: &'a mut BTreeMap<String, u64>,
}

impl Records<'_> {
    /// Calls `each` with every record that can be read and the address of its definition, from
    /// `start` on.
    pub(super) fn read(
        &mut self,
        start: u64,
        end: u64,
        each: &mut dyn FnMut(u64, Record, u64, &mut Unread),
    ) -> Result<(), Problem> {
        let mut at = start;
        while end - at >= 4 {
            let Some([version, size, form, index]) = self.image.bytes(at)? else { break };
            if size < 4 || u64::from(size) > end - at {
                let left = end - at;
                self.unread.add(|| {
                    format!(
                        "the record at {at:#x} has the impossible size {size}: the {left} bytes from there on are \
                         not read"
                    )
                });
                return Ok(());
            }
            let read = match (version, form) {
                (VERSION, 1 | 2) if size >= SITE_RECORD => self.site(at, form)?,
                (VERSION, 3) if size >= FIELD_RECORD => self.field_type(at, index)?,
                (VERSION, 1..=3) => {
                    self.unread
                        .add(|| format!("the record at {at:#x} has {size} bytes, too few for its form"));
                    None
                }
                (VERSION, _) => {
                    self.unread.add(|| format!("the record at {at:#x} has the unknown form {form}"));
                    None
                }
                _ => {
                    self.unread.add(|| format!("the record at {at:#x} has the unknown version {version}"));
                    None
                }
            };
            if let Some((record, definition)) = read {
                each(at, record, definition, self.unread);
            }
            at += u64::from(size);
        }
        Ok(())
    }

    fn site(&mut self, at: u64, form: u8) -> Result<Option<(Record, u64)>, Problem> {
        let Some(bytes) = self.image.bytes::<16>(at)? else { return Ok(None) };
        let [addr, target, stub] = [4, 8, 12].map(|field| relative(at, &bytes, field));
        if !self.image.is_code(addr, SITE_LEN as u64) {
            self.unread.add(|| format!("the record at {at:#x} names a site at {addr:#x}, outside of code"));
            return Ok(None);
        }
        if !self.image.is_code(target, 1) {
            self.unread.add(|| format!("the site at {addr:#x} leads to {target:#x}, outside of code"));
            return Ok(None);
        }
        let away = target.wrapping_sub(addr.wrapping_add(SITE_LEN as u64)).cast_signed();
        if i32::try_from(away).is_err() {
            self.unread.add(|| format!("the site at {addr:#x} leads to {target:#x}, beyond a jump's reach"));
            return Ok(None);
        }
        let Some(bytes) = self.image.bytes::<SITE_LEN>(addr)? else { return Ok(None) };
        let form = if form == 1 { Form::Jump } else { Form::Call };
        let site = Site { addr, target, stub, form, bytes };
        let definition = self.definition(stub, Some(addr))?;
        Ok(definition.map(|definition| (Record::Site(site), definition)))
    }

    fn field_type(&mut self, at: u64, index: u8) -> Result<Option<(Record, u64)>, Problem> {
        let Some(bytes) = self.image.bytes::<12>(at)? else { return Ok(None) };
        let number = u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
        let ty = Type::from_number(number.into());
        let definition = self.definition(relative(at, &bytes, 8), None)?;
        Ok(definition.map(|definition| (Record::Type(index, ty), definition)))
    }

    /// Returns the address of the definition that a stub leads to, directly or through a linkage
    /// table.
    fn definition(&mut self, stub: u64, site: Option<u64>) -> Result<Option<u64>, Problem> {
        match self.stub_code(stub)? {
            Some(StubCode::Definition(definition)) => return Ok(Some(definition)),
            Some(StubCode::Linkage(pointer)) => match self.pointers.at(pointer)? {
                Some(Pointer::Here(stub)) => {
                    if let Some(StubCode::Definition(definition)) = self.stub_code(stub)? {
                        return Ok(Some(definition));
                    }
                }
                Some(Pointer::Elsewhere(symbol)) => {
                    self.note_elsewhere(symbol, u64::from(site.is_some()));
                    return Ok(None);
                }
                None => (),
            },
            None => (),
        }
        let Some(site) = site else { return Ok(None) };
        let bytes = self.image.bytes::<{ STUB_LEN }>(stub)?;
        self.unread.add(|| match bytes {
            Some(bytes) => format!("the stub at {stub:#x} of the site at {site:#x} is none: {}", hex(&bytes)),
            None => format!("the stub of the site at {site:#x} would be at {stub:#x}, outside of the file"),
        });
        Ok(None)
    }

    fn note_elsewhere(&mut self, symbol: String, sites: u64) {
        let is_full = self.elsewhere.len() >= MAX_SYMBOLS && !self.elsewhere.contains_key(&symbol);
        let symbol = if is_full { "(others)".to_owned() } else { symbol };
        *self.elsewhere.entry(symbol).or_default() += sites;
    }

    fn stub_code(&self, stub: u64) -> Result<Option<StubCode>, Problem> {
        if !self.image.is_code(stub, STUB_LEN as u64) {
            return Ok(None);
        }
        Ok(match self.image.bytes::<{ STUB_READ_LEN }>(stub)? {
            Some(bytes) => decode_stub(stub, &bytes),
            // A stub may be the last code of its segment.
            None => self.image.bytes::<{ STUB_LEN }>(stub)?.and_then(|bytes| decode_stub(stub, &bytes)),
        })
    }
}

/// Returns the address that a field of a record leads to.
fn relative(at: u64, bytes: &[u8], field: usize) -> u64 {
    let offset = bytes.get(field..field + 4).and_then(|it| it.try_into().ok()).map_or(0, i32::from_le_bytes);
    at.wrapping_add(field as u64).wrapping_add_signed(offset.into())
}

/// Bytes to read at a stub's address: the longest entry of a linkage table.
const STUB_READ_LEN: usize = 11;
/// Bytes of a stub.
const STUB_LEN: usize = 10;

/// The code at a stub's address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum StubCode {
    /// A stub, and the address of its definition.
    Definition(u64),
    /// An entry of a procedure linkage table, and the address of its pointer.
    Linkage(u64),
}

fn decode_stub(addr: u64, bytes: &[u8]) -> Option<StubCode> {
    // push rdi; lea rdi, [rip + rel32]; jmp [rdi]
    if let [0x57, 0x48, 0x8d, 0x3d, a, b, c, d, 0xff, 0x27, ..] = *bytes {
        let distance = i32::from_le_bytes([a, b, c, d]);
        return Some(StubCode::Definition(addr.wrapping_add(8).wrapping_add_signed(distance.into())));
    }
    let word = linkage_word(usize::try_from(addr).ok()?, bytes)?;
    Some(StubCode::Linkage(word as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stubs_and_entries_of_linkage_tables() {
        let stub = [0x57, 0x48, 0x8d, 0x3d, 0x10, 0, 0, 0, 0xff, 0x27, 0xcc];
        assert_eq!(decode_stub(0x1000, &stub), Some(StubCode::Definition(0x1018)));
        assert_eq!(decode_stub(0x1000, &stub[..9]), None);
        let plain = [0xff, 0x25, 0xfa, 0xff, 0xff, 0xff, 0x68, 0, 0, 0, 0];
        assert_eq!(decode_stub(0x1000, &plain), Some(StubCode::Linkage(0x1000)));
        let marked = [0xf3, 0x0f, 0x1e, 0xfa, 0xf2, 0xff, 0x25, 0x01, 0, 0, 0];
        assert_eq!(decode_stub(0x1000, &marked), Some(StubCode::Linkage(0x100c)));
        assert_eq!(decode_stub(0x1000, &[0x90; 11]), None);
        assert_eq!(decode_stub(0x1000, &[]), None);
    }
}
