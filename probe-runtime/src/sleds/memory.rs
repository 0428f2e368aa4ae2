//! The memory of one object's sleds: stubs, definitions, and pages where CALLs of five NOPs lead.
//!
//! ```text
//! region   stubs        of 16 bytes, in reach of the sleds    readable and executable
//!          definitions  one a function and kind               readable and writable
//! puns     e9 rel32     at each address that five NOPs name   readable and executable
//! ```
//! Sleds of five NOPs of one byte have a region of their own, in reach of their puns, 1.87 GB below
//! the text. A page of puns is written before a thread can execute it, and is never mapped over
//! anything. If that place is taken, or is none that a program can have, as below a program that is
//! not position-independent, the sleds are not armed, unless the process has a single thread that
//! has not reached `main`: then they become one NOP each, as clang has them.
//!
//! Life: made when an operation finds the object; unmapped when its object was unloaded, and no hit
//! is under way.
//! Cost: 208 bytes for a function's entry, 208 for its exits, 100 for each sled; one page of puns
//! for each page of text with such sleds.

// Safety: relies on `os::memory`, which never maps over anything, on pages that no other code knows
// until they are complete, and on the control, which drops memory once no hit is under way.
#![expect(unsafe_code, reason = "see above")]

use std::collections::HashMap;
use std::fmt::Display;
use std::ops::Range;
use std::sync::{Arc, Weak};
use std::{io, mem, ptr, slice};

use probe_hooks::{Description, Place, Sled, SledForm};

use super::call_site::{SledSite, Way};
use super::forms::{self, Forms, pun};
use crate::engine::os;
use crate::engine::os::maps::Rights;
use crate::engine::os::objects::{Frozen, Object, Segment};
use crate::engine::os::text::{page_size, pages};
use crate::engine::sites::{
    Instruction, Rel32, SITE_LEN, SiteAddr, map_near_with_data, unmap, write_text, write_word,
};
use probe_core::abi::{Convention, Definition, Kind};

/// Bytes from one stub to the next.
const STUB_SIZE: usize = 16;
const JMP: u8 = 0xe9;
/// The form of a site.
const NOP5: SledForm = SledForm::Nop(5);
const NOPS: [u8; SITE_LEN] = [0x90; SITE_LEN];

/// An object's sleds as its file has them, with the names of the functions.
#[derive(Debug)]
pub(super) struct NamedSleds {
    pub(super) sleds: Vec<Sled>,
    /// Sleds that can't be used, each with its function and the reason.
    pub(super) refused: Vec<(u64, Place, String)>,
    pub(super) names: HashMap<u64, Description>,
}

/// The sleds of one loaded object.
#[derive(Debug)]
pub(super) struct SledMemory {
    /// Boxed for as long as this lives.
    sites: *mut [SledSite],
    /// Shared for as long as they are mapped.
    regions: Arc<[Range<usize>]>,
    /// Definitions of sleds that are not armed.
    refused: *mut [Definition],
    /// Texts that are too long for their definitions.
    texts: Vec<*mut str>,
}

// SAFETY: it owns what its pointers lead to; sleds and definitions are `Sync`.
unsafe impl Send for SledMemory {}

impl Drop for SledMemory {
    fn drop(&mut self) {
        // SAFETY: made by `make`, and no hit is under way: the control drops it then.
        unsafe {
            self.regions.iter().for_each(|region| unmap(region));
            drop(Box::from_raw(self.sites));
            drop(Box::from_raw(self.refused));
            self.texts.iter().for_each(|text| drop(Box::from_raw(*text)));
        };
    }
}

/// The memory of an object that is being made.
struct Maker<'a> {
    named: &'a NamedSleds,
    base: usize,
    sites: Vec<SledSite>,
    regions: Vec<Range<usize>>,
    /// Sleds that are not armed, with the reasons.
    refused: Vec<(usize, u64, Place, String)>,
    texts: Vec<*mut str>,
}

impl SledMemory {
    /// Makes the sleds of a loaded object. If the calling thread is `alone` in the process and in
    /// none of these functions, it may also write over several instructions.
    pub(super) fn make(frozen: &Frozen, named: &NamedSleds, object: &Object, alone: bool) -> Self {
        let (sites, regions, texts) = (Vec::new(), Vec::new(), Vec::new());
        let mut maker = Maker { named, base: object.base, sites, regions, refused: Vec::new(), texts };
        for (function, place, reason) in &named.refused {
            maker.refuse(*function, *function, *place, reason);
        }
        let (mut near, mut puns) = (Vec::new(), Vec::new());
        for sled in &named.sleds {
            let at = maker.address(sled.at);
            let bytes = at..at.wrapping_add(sled.form.size().into());
            let is_text =
                |it: &Segment| it.is_text && it.range.start <= bytes.start && bytes.end <= it.range.end;
            if !object.segments.iter().any(is_text) {
                maker.refuse(sled.at, sled.function, sled.place, "it does not lie in loaded code");
            } else if sled.form == SledForm::Bytes {
                puns.push(*sled);
            } else {
                near.push(*sled);
            }
        }
        near.extend(maker.make_puns(frozen, &puns, alone));
        near.sort_unstable_by_key(|sled| sled.at);
        let reach = maker.range(&near);
        maker.make_region(&near, &reach);
        maker.end()
    }

    /// Returns its regions, while they are mapped.
    pub(super) fn regions(&self) -> Weak<[Range<usize>]> {
        Arc::downgrade(&self.regions)
    }

    /// Returns whether calls of an object's NOPs lead into one of these regions.
    pub(super) fn needs_any(named: &NamedSleds, object: &Object, regions: &[Range<usize>]) -> bool {
        let nops = named.sleds.iter().filter(|sled| sled.form == SledForm::Bytes);
        let base = |sled: &Sled| usize::try_from(sled.at).unwrap_or_default().wrapping_add(object.base);
        nops.filter_map(|sled| pun(base(sled))).any(|target| {
            let page = pages(target..target + SITE_LEN);
            regions.iter().any(|it| it.start < page.end && page.start < it.end)
        })
    }

    /// Returns all sleds. The caller hands them out for as long as this lives.
    pub(super) fn sites(&self) -> impl Iterator<Item = &'static SledSite> + use<> {
        // SAFETY: the box stays until this is dropped.
        unsafe { &*self.sites }.iter()
    }
}

impl Maker<'_> {
    fn address(&self, in_file: u64) -> usize {
        usize::try_from(in_file).unwrap_or_default().wrapping_add(self.base)
    }

    fn range(&self, sleds: &[Sled]) -> Range<usize> {
        let (Some(first), Some(last)) = (sleds.first(), sleds.last()) else { return 0..0 };
        self.address(first.at)..self.address(last.at).saturating_add(last.form.size().into())
    }

    fn refuse(&mut self, at: u64, function: u64, place: Place, reason: impl Display) {
        self.refused.push((self.address(at), function, place, reason.to_string()));
    }

    /// Maps pages of puns, and arms the sleds that lead there. Returns those that have become one
    /// NOP.
    fn make_puns(&mut self, frozen: &Frozen, sleds: &[Sled], alone: bool) -> Vec<Sled> {
        let mut converted = Vec::new();
        let page = |sled: &Sled| pun(self.address(sled.at)).map(|at| at & !(page_size() - 1));
        let is_next = |one: &Sled, other: &Sled| {
            page(one).zip(page(other)).is_some_and(|(one, other)| other - one <= page_size())
        };
        let runs: Vec<Vec<Sled>> = sleds.chunk_by(is_next).map(<[_]>::to_vec).collect();
        for run in runs {
            let refusal = match self.make_run(&run) {
                Ok(()) => continue,
                Err(error) => error,
            };
            for mut sled in run {
                let at = self.address(sled.at);
                if alone && convert(frozen, at) {
                    sled.form = NOP5;
                    converted.push(sled);
                } else {
                    let reason = format!(
                        "five NOPs of one byte can only become a call of {:#x}, and {refusal}; \
                         start the program with probectl run, or compile it with clang",
                        at.wrapping_add(SITE_LEN).wrapping_add_signed(forms::PUN as isize)
                    );
                    self.refuse(sled.at, sled.function, sled.place, reason);
                }
            }
        }
        converted
    }

    /// Maps the pages of puns side by side, with a region of stubs near them.
    fn make_run(&mut self, run: &[Sled]) -> Result<(), String> {
        let targets: Option<Vec<usize>> = run.iter().map(|sled| pun(self.address(sled.at))).collect();
        let targets = targets.ok_or("no program can have code there")?;
        let (Some(first), Some(last)) = (targets.first(), targets.last()) else { return Ok(()) };
        let place = pages(*first..*last + SITE_LEN);
        let start = os::memory::zeroed_at(place.start, place.len()).map_err(|errno| match errno {
            libc::EEXIST => "other memory is there".to_owned(),
            errno => format!("the system maps nothing there: {}", io::Error::from_raw_os_error(errno)),
        })?;
        // SAFETY: just mapped, and no other code knows it; given back before it is used.
        let give_back = || unsafe { os::memory::give_back(start, place.len()) };
        let stubs = self.make_region(run, &place).ok_or_else(|| {
            give_back();
            "there is no room for stubs near by"
        })?;
        // SAFETY: as above.
        let code = unsafe { slice::from_raw_parts_mut(start, place.len()) };
        for (target, stub) in targets.iter().zip(stubs) {
            let rel = Rel32::between(SiteAddr(*target), stub).map_or(0, |rel| rel.0);
            let jump = &mut code[target - place.start..][..SITE_LEN];
            jump[0] = JMP;
            jump[1..].copy_from_slice(&rel.to_le_bytes());
        }
        if let Err(error) = os::text::protect(&place, Rights::TEXT) {
            let armed = self.sites.len() - run.len();
            self.sites.truncate(armed);
            give_back();
            return Err(format!("the system lets no code be there: {error}"));
        }
        os::memory::name(place.start, place.len());
        self.regions.push(place);
        Ok(())
    }

    /// Makes stubs and definitions in reach of these addresses, and arms the sleds. Returns the
    /// addresses of their stubs; `None` if there is no room, and the sleds are refused then, unless
    /// they have puns.
    fn make_region(&mut self, sleds: &[Sled], reach: &Range<usize>) -> Option<Vec<usize>> {
        if sleds.is_empty() {
            return Some(Vec::new());
        }
        let mut numbers = HashMap::new();
        let mut functions = Vec::new();
        for sled in sleds {
            let kind = kind(sled.place);
            numbers.entry((sled.function, kind as u8)).or_insert_with(|| {
                functions.push((sled.function, kind));
                functions.len() - 1
            });
        }
        let (code, data) = (functions.len() * STUB_SIZE, functions.len() * size_of::<Definition>());
        let data_offset = code.next_multiple_of(page_size());
        let fill = |bytes: &mut [u8], _: usize| {
            for (number, stub) in bytes.chunks_exact_mut(STUB_SIZE).enumerate() {
                let definition = data_offset + number * size_of::<Definition>();
                stub.copy_from_slice(&self::stub(definition - number * STUB_SIZE));
            }
        };
        let region = match map_near_with_data(reach, code, data, fill) {
            Ok(region) => region,
            Err(_) if reach.end <= self.address(sleds[0].at) => return None,
            Err(error) => {
                for sled in sleds {
                    let reason = format!("the system maps no code in its reach: {error}");
                    self.refuse(sled.at, sled.function, sled.place, reason);
                }
                return None;
            }
        };
        let definition_at = |number: usize| {
            let at = region.start + data_offset + number * size_of::<Definition>();
            ptr::with_exposed_provenance_mut::<Definition>(at)
        };
        for (number, (function, kind)) in functions.iter().enumerate() {
            let definition = self.definition(*function, *kind, None);
            // SAFETY: in the new region, which no other code knows, and aligned: pages are.
            unsafe { definition_at(number).write(definition) };
        }
        let mut stubs = Vec::with_capacity(sleds.len());
        for sled in sleds {
            let number = numbers[&(sled.function, kind(sled.place) as u8)];
            let (at, stub) = (self.address(sled.at), region.start + number * STUB_SIZE);
            let way = if sled.form == NOP5 {
                Rel32::between(SiteAddr(at), stub).map(|rel| Way::Site(Instruction::call(rel)))
            } else {
                Forms::of(sled, at, stub).map(Way::Forms)
            };
            self.sites.push(SledSite::new(at, definition_at(number), way.unwrap_or(Way::None)));
            stubs.push(stub);
        }
        self.regions.push(region);
        Some(stubs)
    }

    /// Makes a definition, with the reason for which it is not armed.
    fn definition(&mut self, function: u64, kind: Kind, reason: Option<&str>) -> Definition {
        let unknown = Description { path: format!("{function:#x}"), file: String::new(), line: 0 };
        let Description { path, file, line } = self.named.names.get(&function).unwrap_or(&unknown);
        let notes = reason.map_or_else(String::new, |reason| format!("skipped={reason}\n"));
        let text = Box::into_raw([path, file, &*notes].concat().into_boxed_str());
        // SAFETY: lives as long as the definition: until `self` is dropped, if it is kept.
        let whole: &'static str = unsafe { &*text };
        let made = Definition::discovered(kind, Convention::Hidden, whole, path, file, &notes, *line);
        if made.text_elsewhere().is_some() {
            self.texts.push(text);
        } else {
            // SAFETY: made above, and copied into the definition.
            drop(unsafe { Box::from_raw(text) });
        }
        made
    }

    fn end(mut self) -> SledMemory {
        let refused = mem::take(&mut self.refused);
        let definitions = refused.iter().map(|(_, function, place, reason)| {
            let reason: String = reason.chars().map(|it| if it == '\n' { ' ' } else { it }).collect();
            self.definition(*function, kind(*place), Some(&reason))
        });
        let definitions: Box<[Definition]> = definitions.collect();
        let definitions = Box::into_raw(definitions);
        for (number, (at, ..)) in refused.iter().enumerate() {
            // SAFETY: an element of the box.
            let definition = unsafe { &raw const (*definitions)[number] };
            self.sites.push(SledSite::new(*at, definition, Way::None));
        }
        let sites = Box::into_raw(self.sites.into_boxed_slice());
        SledMemory { sites, regions: self.regions.into(), refused: definitions, texts: self.texts }
    }
}

fn kind(place: Place) -> Kind {
    if place == Place::Entry { Kind::Entry } else { Kind::Exit }
}

/// Returns the code of a stub that lies this far before its definition.
fn stub(distance: usize) -> [u8; STUB_SIZE] {
    /// `push rdi; lea rdi, [definition]; jmp [rdi]`, and traps.
    const CODE: [u8; STUB_SIZE] =
        [0x57, 0x48, 0x8d, 0x3d, 0, 0, 0, 0, 0xff, 0x27, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc];
    /// The end of `lea`.
    const END: usize = 8;
    let mut code = CODE;
    let rel = u32::try_from(distance - END).unwrap_or_default();
    code[END - 4..END].copy_from_slice(&rel.to_le_bytes());
    code
}

/// Makes five NOPs of one byte one NOP, if they are there. The caller is the only thread.
fn convert(_frozen: &Frozen, at: usize) -> bool {
    let mut is_whole = true;
    let done = write_text(&(at..at + SITE_LEN), &mut || {
        for plan in forms::pieces(at, &NOPS, &Instruction::NOP5.bytes()) {
            // SAFETY: loaded text, which is writable now, and only this thread could execute it.
            is_whole &= plan.whole().is_some_and(|write| unsafe { write_word(write) });
        }
    });
    matches!(done, Ok(())) && is_whole
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::entry::backend::stub::{StubCode, decode};

    #[test]
    fn a_stub_names_its_definition() {
        for distance in [STUB_SIZE, 4096, 1 << 20] {
            let found = decode(0x10_0000, &stub(distance));
            assert_eq!(found, Some(StubCode::Definition(0x10_0000 + distance)));
        }
    }
}
