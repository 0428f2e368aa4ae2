//! Records: one for each site, and one for each type of a field.

use std::collections::BTreeMap;

use super::probe::{Form, SITE_LEN, Site};
use super::stub::{self, StubCode};
use super::unread::Unread;
use crate::elf::{Image, Pointer, Pointers, Problem};
use crate::text::hex;
use probe_runtime::Type;

/// The version that this reader knows.
const VERSION: u8 = 1;
const SITE_RECORD: u8 = 16;
const FIELD_RECORD: u8 = 12;
/// Symbols of other objects that are told apart.
const SYMBOLS: usize = 1000;

#[derive(Clone, Copy)]
pub(super) enum Record {
    Site(Site),
    /// A field's number, and its type; `None` if this reader does not know the type.
    Type(u8, Option<Type>),
}

/// Reads records, and where their stubs lead.
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
            let said = match (version, form) {
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
            if let Some((record, definition)) = said {
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
        let ty = Type::ALL.into_iter().find(|ty| *ty as u32 == number);
        let definition = self.definition(relative(at, &bytes, 8), None)?;
        Ok(definition.map(|definition| (Record::Type(index, ty), definition)))
    }

    /// Returns the address of the definition that a stub leads to, directly or through a linkage
    /// table.
    fn definition(&mut self, stub: u64, site: Option<u64>) -> Result<Option<u64>, Problem> {
        match self.decode(stub)? {
            Some(StubCode::Definition(definition)) => return Ok(Some(definition)),
            Some(StubCode::Linkage(pointer)) => match self.pointers.at(pointer)? {
                Some(Pointer::Here(stub)) => {
                    if let Some(StubCode::Definition(definition)) = self.decode(stub)? {
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
        let bytes = self.image.bytes::<{ stub::LEN }>(stub)?;
        self.unread.add(|| match bytes {
            Some(bytes) => format!("the stub at {stub:#x} of the site at {site:#x} is none: {}", hex(&bytes)),
            None => format!("the stub of the site at {site:#x} would be at {stub:#x}, outside of the file"),
        });
        Ok(None)
    }

    fn note_elsewhere(&mut self, symbol: String, sites: u64) {
        let is_full = self.elsewhere.len() >= SYMBOLS && !self.elsewhere.contains_key(&symbol);
        let symbol = if is_full { "(others)".to_owned() } else { symbol };
        *self.elsewhere.entry(symbol).or_default() += sites;
    }

    fn decode(&self, stub: u64) -> Result<Option<StubCode>, Problem> {
        if !self.image.is_code(stub, stub::LEN as u64) {
            return Ok(None);
        }
        Ok(match self.image.bytes::<{ stub::READ }>(stub)? {
            Some(bytes) => stub::decode(stub, &bytes),
            // A stub may be the last code of its segment.
            None => self.image.bytes::<{ stub::LEN }>(stub)?.and_then(|bytes| stub::decode(stub, &bytes)),
        })
    }
}

/// Returns the address that a field of a record leads to.
fn relative(at: u64, bytes: &[u8], field: usize) -> u64 {
    let offset = bytes.get(field..field + 4).and_then(|it| it.try_into().ok()).map_or(0, i32::from_le_bytes);
    at.wrapping_add(field as u64).wrapping_add_signed(offset.into())
}
