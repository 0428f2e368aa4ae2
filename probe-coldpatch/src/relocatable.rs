//! Object files, before they are linked.
//!
//! | relocation of | becomes |
//! |---|---|
//! | a call, a jump through a pointer | none |
//! | a jump | one to the code of its site |
//!
//! All bytes stay where they are, but for these. Sections are added at the end, as `probe-build`
//! has them, and the table of symbols moves there, with local ones for these sections. Records are
//! linked to the section of their code and join its group, so that linkers drop them with it.
//!
//! To find the calls, readers of linked files get an [image](Object::image) of the file: the same
//! sections at addresses of their own, with relocations applied, and calls through pointers made
//! direct, as linkers make them.

use std::collections::{BTreeMap, HashMap};

use object::LittleEndian as LE;
use object::elf::{self, Rela64, Sym64};
use object::pod::bytes_of;
use object::{I64, U16, U32, U64};

use crate::error::Error;
use crate::file::{File, PAGE, SECTION_LEN, Section, Segment, field, put, put_short, table};
use crate::patch::{Call, Probe, SITE_IN_THUNK, THUNK, is_prefix};
use crate::tables::{CODE, DEFINITIONS, NOTE, RECORDS, TEXTS, Tables, record_head};

/// The address of the first section in an image.
const FIRST: u64 = 0x10_0000;
/// Bytes of a symbol, of a relocation, and of a stand-in for a symbol of another object.
const SYMBOL_LEN: u64 = 24;
const RELOCATION_LEN: u64 = 24;
const STAND_IN_LEN: u64 = 16;
/// A section of a form of relocations that is not read here.
const CREL: u32 = 0x4000_0014;
/// A section with numbers of symbols, for one linker.
const ADDRSIG: u32 = 0x6fff_4c03;

/// An object file.
pub struct Object<'a> {
    file: File<'a>,
    symbols: usize,
    /// The addresses of sections in the image; 0 of those that are not loaded.
    addrs: Vec<u64>,
    /// The numbers of the sections that are loaded, in the order of their addresses.
    loaded: Vec<usize>,
    /// The address in the image of the stand-ins for symbols of other objects.
    others: u64,
    /// The relocations of code, by section and place.
    relocated: HashMap<(usize, u64), Relocation>,
}

/// A relocation, and its place in the file.
#[derive(Clone, Copy)]
struct Relocation {
    at: u64,
    /// The place in the section.
    offset: u64,
    kind: u32,
    symbol: u32,
    addend: i64,
}

impl<'a> Object<'a> {
    /// Reads an object file.
    ///
    /// # Errors
    /// If it is for another machine, or is damaged.
    pub fn read(bytes: &'a [u8]) -> Result<Self, Error> {
        let file = File::read(bytes)?;
        if file.kind != elf::ET_REL {
            return Err(Error::unsuitable("is no object file"));
        }
        let unread = file.sections.iter().any(|it| it.kind.0 == CREL || it.kind == elf::SHT_SYMTAB_SHNDX);
        let symbols = file.sections.iter().position(|it| it.kind == elf::SHT_SYMTAB);
        let names = |number: usize| file.sections.get(file.sections[number].link as usize);
        let is_sound = |number: &usize| {
            let it = &file.sections[*number];
            it.len.is_multiple_of(SYMBOL_LEN)
                && u64::from(it.info) <= it.len / SYMBOL_LEN
                && names(*number).is_some_and(|it| it.kind == elf::SHT_STRTAB)
        };
        let Some(symbols) = symbols.filter(is_sound).filter(|_| !unread) else {
            return Err(Error::unsuitable("has no symbols, or has them in a form that is not known here"));
        };
        let (mut addrs, mut loaded, mut next) = (Vec::new(), Vec::new(), FIRST);
        for (number, it) in file.sections.iter().enumerate() {
            addrs.push(if it.is_allocated() { next } else { 0 });
            if it.is_allocated() {
                loaded.push(number);
                next = (next + it.len).next_multiple_of(PAGE) + PAGE;
            }
            if next > 1 << 31 {
                return Err(Error::unsuitable("is too large"));
            }
        }
        let mut object = Self { file, symbols, addrs, loaded, others: next, relocated: HashMap::new() };
        let is_code = |number: &usize| {
            let section = object.file.sections.get(*number);
            section.is_some_and(|it| it.flags.0 & elf::SHF_EXECINSTR.0 != 0)
        };
        let of_code = object.relocations().filter(|(number, _)| is_code(number));
        let relocated =
            of_code.flat_map(|(number, all)| all.into_iter().map(move |it| ((number, it.offset), it)));
        object.relocated = relocated.collect();
        Ok(object)
    }

    fn symbol_table(&self) -> &'a [Sym64<LE>] {
        let it = &self.file.sections[self.symbols];
        let many = usize::try_from(it.len / SYMBOL_LEN).unwrap_or_default();
        table(self.file.bytes, it.offset, many).unwrap_or_default()
    }

    /// Returns the relocations of each section, by its number.
    fn relocations(&self) -> impl Iterator<Item = (usize, Vec<Relocation>)> {
        let tables = self.file.sections.iter().filter(|it| it.kind == elf::SHT_RELA);
        tables.map(|it| {
            let many = usize::try_from(it.len / RELOCATION_LEN).unwrap_or_default();
            let all: &[Rela64<LE>] = table(self.file.bytes, it.offset, many).unwrap_or_default();
            let all = all.iter().zip((it.offset..).step_by(24)).map(|(it, at)| Relocation {
                at,
                offset: it.r_offset.get(LE),
                kind: it.r_type(LE, false).0,
                symbol: it.r_sym(LE, false),
                addend: it.r_addend.get(LE),
            });
            (it.info as usize, all.collect())
        })
    }

    /// Returns the address of a symbol in the image.
    fn symbol_addr(&self, number: u32) -> u64 {
        let Some(symbol) = self.symbol_table().get(number as usize) else { return 0 };
        let (section, value) = (symbol.st_shndx.get(LE), symbol.st_value.get(LE));
        if section == elf::SHN_UNDEF {
            return self.others + STAND_IN_LEN * u64::from(number);
        }
        self.addrs.get(usize::from(section.0)).map_or(value, |addr| addr.wrapping_add(value))
    }

    /// Returns the file as readers of linked files understand it.
    pub fn image(&self) -> Vec<u8> {
        let mut out = self.file.bytes.to_vec();
        for (number, relocations) in self.relocations() {
            let Some(section) = self.file.sections.get(number) else { continue };
            // Its bytes are others than those that are relocated.
            let is_compressed = section.flags.0 & elf::SHF_COMPRESSED.0 != 0;
            if section.range().is_empty() || is_compressed {
                continue;
            }
            let range = section.range();
            let bytes = out.get_mut(to_usize(range.start)..to_usize(range.end)).unwrap_or_default();
            for it in relocations {
                apply(bytes, &it, self.symbol_addr(it.symbol), self.addrs[number]);
            }
        }
        for (number, symbol) in (0_u32..).zip(self.symbol_table()) {
            let at = self.file.sections[self.symbols].offset + SYMBOL_LEN * u64::from(number);
            let section = symbol.st_shndx.get(LE);
            put(&mut out, at + 8, &self.symbol_addr(number).to_le_bytes());
            if section == elf::SHN_UNDEF && number != 0 {
                // A function, in the section that is added below.
                put(&mut out, at + 4, &[symbol.st_info.0 & 0xf0 | elf::STT_FUNC.0]);
                let added = u16::try_from(self.file.sections.len()).unwrap_or_default();
                put(&mut out, at + 6, &added.to_le_bytes());
                put(&mut out, at + 16, &STAND_IN_LEN.to_le_bytes());
            }
        }
        let others_at = out.len() as u64;
        let others_len = STAND_IN_LEN * self.symbol_table().len() as u64;
        out.resize(out.len() + to_usize(others_len), 0xcc);
        let loaded = |flags, offset, addr, len| Segment {
            kind: elf::PT_LOAD,
            flags: elf::ProgramFlags(flags),
            offset,
            addr,
            paddr: addr,
            file_len: len,
            len,
            align: 1,
        };
        let (read, execute) = (elf::PF_R.0, elf::PF_R.0 | elf::PF_X.0);
        let mut segments = Vec::new();
        let mut sections = self.file.sections.clone();
        for (section, addr) in sections.iter_mut().zip(&self.addrs) {
            section.addr = *addr;
            if section.flags.0 & elf::SHF_COMPRESSED.0 != 0 {
                section.name = 0;
            }
            if section.is_allocated() && !section.range().is_empty() {
                let is_code = section.flags.0 & elf::SHF_EXECINSTR.0 != 0;
                segments.push(loaded(
                    if is_code { execute } else { read },
                    section.offset,
                    *addr,
                    section.len,
                ));
            }
        }
        segments.push(loaded(execute, others_at, self.others, others_len));
        let others = Section {
            name: 0,
            kind: elf::SHT_PROGBITS,
            flags: elf::SectionFlags(elf::SHF_ALLOC.0 | elf::SHF_EXECINSTR.0),
            addr: self.others,
            offset: others_at,
            len: others_len,
            link: 0,
            info: 0,
            align: 16,
            entry_len: 0,
        };
        sections.push(others);
        let segments_at = out.len().next_multiple_of(8);
        out.resize(segments_at, 0);
        out.extend(segments.iter().flat_map(Segment::bytes));
        put(&mut out, 32, &(segments_at as u64).to_le_bytes());
        put_short(&mut out, 16, elf::ET_DYN.0);
        put_short(&mut out, 54, 56);
        put_short(&mut out, field::SEGMENT_COUNT, u16::try_from(segments.len()).unwrap_or_default());
        write_sections(&mut out, &sections);
        out
    }

    /// Returns the section with an address of the image, and the place in it.
    fn place(&self, addr: u64) -> Option<(usize, u64)> {
        let at = self.loaded.partition_point(|number| self.addrs[*number] <= addr).checked_sub(1)?;
        let number = self.loaded[at];
        let offset = addr - self.addrs[number];
        (offset < self.file.sections[number].len).then_some((number, offset))
    }

    /// Returns the call at an address of the image, as it is in the file, with its section and its
    /// place there.
    fn call(&self, call: &Call) -> Option<(usize, u64, Call)> {
        let (number, offset) = self.place(call.addr)?;
        let section = &self.file.sections[number];
        let is_code = section.flags.0 & elf::SHF_EXECINSTR.0 != 0;
        let bytes = self.file.part(section.offset + offset..section.range().end);
        let prefixes = bytes.iter().take_while(|byte| is_prefix(**byte)).count();
        let own = match bytes.get(prefixes..)? {
            [0xe8 | 0xe9, ..] => 5,
            [0xff, 0x15 | 0x25, ..] => 6,
            _ => return None,
        };
        let call = Call { len: prefixes + own, ..*call };
        let is_one = is_code && bytes.get(..call.len).is_some_and(|bytes| call.check(bytes).is_ok());
        is_one.then_some((number, offset, call))
    }

    /// Describes the place of an address of the image: its section, and how far in.
    pub fn describe(&self, addr: u64) -> String {
        let Some((number, offset)) = self.place(addr) else { return String::new() };
        let name = self.file.name(&self.file.sections[number]);
        format!("{}+{offset:#x}", String::from_utf8_lossy(name))
    }

    /// Returns whether a call can become a site. `call.addr` is an address of the image.
    pub fn has_site(&self, call: &Call) -> bool {
        let Some((number, offset, call)) = self.call(call) else { return false };
        // Without a relocation, the assembler has filled in the distance of the jump.
        !call.needs_thunk() || self.relocated.contains_key(&(number, offset + 1))
    }

    /// Returns the object file with a NOP in place of each call, and with tables of the sites.
    /// Addresses are those of the image.
    ///
    /// # Errors
    /// If there is no call of a hook at one of these addresses, or a call names no probe.
    pub fn patched(&self, probes: &[Probe], calls: &[Call]) -> Result<Vec<u8>, Error> {
        crate::linked::check_probes(probes, calls)?;
        let found = calls.iter().map(|call| self.call(call)).collect::<Option<Vec<_>>>();
        let found = found.ok_or_else(|| Error::damaged("it has no call of a hook where one was found"))?;
        let mut writer = Writer::new(self, found.iter().map(|(number, ..)| *number));
        let calls: Vec<_> = found.iter().map(|(.., call)| *call).collect();
        // Addresses of its parts begin at 0 in each section.
        let mut tables = Tables::new(probes, &calls);
        tables.thunks = tables.stubs_len();
        let thunks: Vec<_> = tables.thunk_of().collect();
        let mut records: BTreeMap<usize, Vec<[(u32, u64); 2]>> = BTreeMap::new();
        for ((number, offset, call), thunk) in found.iter().zip(thunks) {
            let end = offset + call.len as u64;
            let old = self.relocated.get(&(*number, end - 4));
            let stub = (writer.code, 16 * call.probe as u64);
            let mut bytes = match thunk {
                None => call.latent(None).ok_or_else(|| Error::damaged("a call is none"))?,
                // The linker fills in the distance.
                Some(_) => vec![0xe9, 0, 0, 0, 0],
            };
            let site = if let Some(thunk) = thunk {
                let old = old.ok_or_else(|| Error::unsuitable("has a jump without a relocation"))?;
                put(
                    &mut writer.out,
                    old.at,
                    &relocation(old.offset, writer.code, elf::R_X86_64_PLT32, thunk.cast_signed() - 4),
                );
                (writer.code, thunk + SITE_IN_THUNK)
            } else {
                if let Some(old) = old {
                    // It writes nothing. But linkers that fold identical functions (`--icf`)
                    // compare it: a function keeps its own sites.
                    let (code, of_probe) = (stub.0, stub.1.cast_signed());
                    let unlike = relocation(old.offset, code, elf::R_X86_64_NONE, of_probe);
                    put(&mut writer.out, old.at, &unlike);
                }
                let site = call.site().wrapping_sub(call.addr);
                (writer.text[number], offset + site)
            };
            let section = &self.file.sections[*number];
            bytes.truncate(call.len);
            put(&mut writer.out, section.offset + offset, &bytes);
            records.entry(*number).or_default().push([site, stub]);
        }
        writer.add_tables(&tables, &records)?;
        Ok(writer.finish())
    }
}

/// The new file.
struct Writer<'a> {
    object: &'a Object<'a>,
    out: Vec<u8>,
    sections: Vec<Section>,
    names: Vec<u8>,
    /// Names of symbols; the new local symbols, and the new others.
    strings: Vec<u8>,
    locals: Vec<Vec<u8>>,
    others: Vec<Vec<u8>>,
    /// The numbers of symbols: of the new code, definitions and texts, and of the sections with
    /// calls.
    code: u32,
    definitions: u32,
    texts: u32,
    text: HashMap<usize, u32>,
    first_global: u32,
}

impl<'a> Writer<'a> {
    fn new(object: &'a Object<'a>, with_calls: impl Iterator<Item = usize>) -> Self {
        let file = &object.file;
        let first_global = file.sections[object.symbols].info;
        let part = |number: usize| file.part(file.sections[number].range()).to_vec();
        let mut writer = Self {
            object,
            out: file.bytes.to_vec(),
            sections: file.sections.clone(),
            names: part(file.names),
            strings: part(file.sections[object.symbols].link as usize),
            locals: Vec::new(),
            others: Vec::new(),
            code: 0,
            definitions: 0,
            texts: 0,
            text: HashMap::new(),
            first_global,
        };
        // The sections follow in this order.
        let next = file.sections.len();
        [writer.code, writer.definitions, writer.texts] = [0, 1, 2].map(|more| writer.add_local(next + more));
        for number in with_calls {
            if !writer.text.contains_key(&number) {
                let symbol = writer.add_local(number);
                writer.text.insert(number, symbol);
            }
        }
        writer.renumber();
        writer
    }

    /// Adds a symbol of a section. Returns its number.
    fn add_local(&mut self, section: usize) -> u32 {
        let section = u16::try_from(section).unwrap_or_default();
        self.locals.push(symbol(0, elf::STT_SECTION.0, 0, section));
        self.first_global + u32::try_from(self.locals.len()).unwrap_or_default() - 1
    }

    /// Gives symbols behind the new local ones their new numbers, wherever one is named.
    fn renumber(&mut self) {
        let more = u32::try_from(self.locals.len()).unwrap_or_default();
        let first = self.first_global;
        let file = &self.object.file;
        let own = self.object.symbols;
        for (number, section) in file.sections.iter().enumerate() {
            if section.link as usize != own {
                continue;
            }
            match section.kind {
                elf::SHT_RELA | elf::SHT_REL => {
                    let len = if section.kind == elf::SHT_RELA { 24 } else { 16 };
                    for at in section.range().step_by(len) {
                        let field = file.part(at + 12..at + 16);
                        let old = u32::from_le_bytes(field.try_into().unwrap_or_default());
                        if old >= first {
                            put(&mut self.out, at + 12, &old.wrapping_add(more).to_le_bytes());
                        }
                    }
                }
                elf::SHT_GROUP if section.info >= first => self.sections[number].info += more,
                // It lists the symbols whose addresses matter. Without it, all do.
                elf::SectionType(ADDRSIG) => self.sections[number].len = 0,
                _ => (),
            }
        }
    }

    /// Returns whether one table has the names of symbols and of sections.
    fn names_are_strings(&self) -> bool {
        let file = &self.object.file;
        file.names == file.sections[self.object.symbols].link as usize
    }

    fn add_name(&mut self, name: &str) -> u32 {
        let names = if self.names_are_strings() { &mut self.strings } else { &mut self.names };
        let at = u32::try_from(names.len()).unwrap_or_default();
        names.extend_from_slice(name.as_bytes());
        names.push(0);
        at
    }

    /// Adds a section, with its relocations. Returns their numbers.
    fn add(&mut self, new: New<'_>) -> (usize, Option<usize>) {
        let New { name, kind, flags, link, align, bytes, relocations } = new;
        let number = self.sections.len();
        let group = flags & elf::SHF_GROUP.0;
        let name_at = self.add_name(name);
        let section = Section {
            name: name_at,
            kind,
            flags: elf::SectionFlags(flags),
            addr: 0,
            offset: self.append(bytes, align),
            len: bytes.len() as u64,
            link: u32::try_from(link).unwrap_or_default(),
            info: 0,
            align,
            entry_len: 0,
        };
        self.sections.push(section);
        if relocations.is_empty() {
            return (number, None);
        }
        let name = self.add_name(&format!(".rela{name}"));
        let offset = self.append(&relocations.concat(), 8);
        let link = u32::try_from(self.object.symbols).unwrap_or_default();
        self.sections.push(Section {
            name,
            kind: elf::SHT_RELA,
            flags: elf::SectionFlags(elf::SHF_INFO_LINK.0 | group),
            offset,
            len: RELOCATION_LEN * relocations.len() as u64,
            link,
            info: u32::try_from(number).unwrap_or_default(),
            align: 8,
            entry_len: RELOCATION_LEN,
            ..section
        });
        (number, Some(number + 1))
    }

    /// Appends bytes. Returns their place.
    fn append(&mut self, bytes: &[u8], align: u64) -> u64 {
        self.out.resize(self.out.len().next_multiple_of(to_usize(align)), 0);
        let at = self.out.len() as u64;
        self.out.extend_from_slice(bytes);
        at
    }

    fn add_tables(
        &mut self,
        tables: &Tables<'_>,
        records: &BTreeMap<usize, Vec<[(u32, u64); 2]>>,
    ) -> Result<(), Error> {
        let (alloc, write, execute) = (elf::SHF_ALLOC.0, elf::SHF_WRITE.0, elf::SHF_EXECINSTR.0);
        let far = || Error::damaged("its tables are too long");
        let texts = tables.long_texts();
        let mut code = tables.stubs().ok_or_else(far)?;
        let stubs = (0..code.len() as u64 / 16).map(|probe| {
            let definition = (tables.definition(to_usize(probe)) - tables.definitions).cast_signed();
            relocation(16 * probe + 4, self.definitions, elf::R_X86_64_PC32, definition - 4)
        });
        let stubs = stubs.collect();
        code.extend((0..tables.thunks_len() / THUNK.len() as u64).flat_map(|_| THUNK));
        self.add_one(progbits(CODE, alloc | execute, 16, &code, stubs), 0)?;
        let words = texts.words(tables).into_iter();
        let words = words.map(|(at, text)| relocation(at, self.texts, elf::R_X86_64_64, text.cast_signed()));
        let words = words.collect();
        let definitions = tables.definitions(&texts, false);
        self.add_one(progbits(DEFINITIONS, alloc | write, 64, &definitions, words), 1)?;
        self.add_one(progbits(TEXTS, alloc, 1, &texts.bytes, Vec::new()), 2)?;
        let (groups_of, mut joining) = (self.groups(), BTreeMap::<usize, Vec<usize>>::new());
        for (section, records) in records {
            let groups = self.sections[*section].flags.0 & elf::SHF_GROUP.0;
            let head: Vec<u8> = records.iter().flat_map(|_| record_head()).collect();
            let mut relocations = Vec::new();
            for (at, [site, stub]) in (0..).step_by(16).zip(records) {
                for (field, (symbol, to)) in [(4, site), (8, stub), (12, stub)] {
                    relocations.push(relocation(at + field, *symbol, elf::R_X86_64_PC32, to.cast_signed()));
                }
            }
            let flags = alloc | elf::SHF_LINK_ORDER.0 | groups;
            let new = New { link: *section, ..progbits(RECORDS, flags, 4, &head, relocations) };
            let (number, relocations) = self.add(new);
            if groups != 0 {
                let group =
                    *groups_of.get(section).ok_or_else(|| Error::damaged("its groups lack a section"))?;
                joining.entry(group).or_default().extend([Some(number), relocations].into_iter().flatten());
            }
        }
        for (group, new) in joining {
            let it = self.sections[group];
            let mut bytes = self.object.file.part(it.range()).to_vec();
            for new in new {
                bytes.extend_from_slice(&u32::try_from(new).unwrap_or_default().to_le_bytes());
            }
            self.sections[group].offset = self.append(&bytes, 4);
            self.sections[group].len = bytes.len() as u64;
        }
        let mut note = tables.note();
        let ends = note.len() as u64 - 32;
        note.truncate(to_usize(ends));
        note.resize(note.len() + 32, 0);
        let first = self.first_global + u32::try_from(self.locals.len()).unwrap_or_default();
        let olds = u32::try_from(self.object.symbol_table().len()).unwrap_or_default() - self.first_global;
        let mut relocations = Vec::new();
        for (number, name) in [RECORDS, DEFINITIONS]
            .into_iter()
            .flat_map(|name| ["start", "stop"].map(|end| format!("__{end}_{name}")))
            .enumerate()
        {
            let number = u32::try_from(number).unwrap_or_default();
            let string = u32::try_from(self.strings.len()).unwrap_or_default();
            self.strings.extend_from_slice(name.as_bytes());
            self.strings.push(0);
            self.others.push(symbol(string, elf::STB_WEAK.0 << 4, elf::STV_HIDDEN.0, 0));
            let field = ends + 8 * u64::from(number);
            relocations.push(relocation(field, first + olds + number, elf::R_X86_64_PC64, 0));
        }
        let new = New { kind: elf::SHT_NOTE, ..progbits(NOTE, alloc, 4, &note, relocations) };
        self.add(new);
        Ok(())
    }

    /// Adds a section that has a symbol already: that of the section with this number among them.
    fn add_one(&mut self, new: New<'_>, number: usize) -> Result<(), Error> {
        let (section, _) = self.add(new);
        let section = u16::try_from(section).map_err(|_| Error::unsuitable("has too many sections"))?;
        self.locals[number] = symbol(0, elf::STT_SECTION.0, 0, section);
        Ok(())
    }

    /// Returns the number of each section's group.
    fn groups(&self) -> HashMap<usize, usize> {
        let file = &self.object.file;
        let groups = file.sections.iter().enumerate().filter(|(_, it)| it.kind == elf::SHT_GROUP);
        let members = groups.flat_map(|(group, it)| {
            let words = file.part(it.range()).chunks_exact(4).skip(1);
            words.map(move |word| {
                (to_usize(word.iter().rfold(0, |all, byte| all << 8 | u64::from(*byte))), group)
            })
        });
        members.collect()
    }

    /// Writes symbols, names and section headers.
    fn finish(mut self) -> Vec<u8> {
        let file = &self.object.file;
        let old = file.part(file.sections[self.object.symbols].range());
        let split = to_usize(SYMBOL_LEN * u64::from(self.first_global));
        let (before, behind) = old.split_at(split.min(old.len()));
        let all = [before, &self.locals.concat(), behind, &self.others.concat()].concat();
        let strings = file.sections[self.object.symbols].link as usize;
        let more = u32::try_from(self.locals.len()).unwrap_or_default();
        let strings_too = self.names_are_strings();
        let tables = [
            (self.object.symbols, all),
            (strings, self.strings.clone()),
            (file.names, if strings_too { self.strings.clone() } else { self.names.clone() }),
        ];
        for (number, bytes) in tables.into_iter().take(if strings_too { 2 } else { 3 }) {
            self.sections[number].offset = self.append(&bytes, 8);
            self.sections[number].len = bytes.len() as u64;
        }
        self.sections[self.object.symbols].info += more;
        write_sections(&mut self.out, &self.sections);
        self.out
    }
}

/// A section to add.
struct New<'a> {
    name: &'a str,
    kind: elf::SectionType,
    flags: u64,
    link: usize,
    align: u64,
    bytes: &'a [u8],
    relocations: Vec<Vec<u8>>,
}

fn progbits<'a>(
    name: &'a str,
    flags: u64,
    align: u64,
    bytes: &'a [u8],
    relocations: Vec<Vec<u8>>,
) -> New<'a> {
    New { name, kind: elf::SHT_PROGBITS, flags, link: 0, align, bytes, relocations }
}

fn relocation(offset: u64, symbol: u32, kind: elf::RelocationType, addend: i64) -> Vec<u8> {
    let info = u64::from(symbol) << 32 | u64::from(kind.0);
    bytes_of(&Rela64::<LE> {
        r_offset: U64::new(LE, offset),
        r_info: U64::new(LE, info),
        r_addend: I64::new(LE, addend),
    })
    .to_vec()
}

fn symbol(name: u32, info: u8, visibility: u8, section: u16) -> Vec<u8> {
    bytes_of(&Sym64::<LE> {
        st_name: U32::new(LE, name),
        st_info: elf::SymbolInfo(info),
        st_other: elf::SymbolOther(visibility),
        st_shndx: U16::new(LE, elf::SymbolSection(section)),
        st_value: U64::new(LE, 0),
        st_size: U64::new(LE, 0),
    })
    .to_vec()
}

/// Applies a relocation, and makes a use of a pointer direct, as far as readers of code need that.
fn apply(bytes: &mut [u8], it: &Relocation, symbol: u64, section: u64) {
    let (at, value) = (to_usize(it.offset), symbol.wrapping_add_signed(it.addend));
    let relative = value.wrapping_sub(section.wrapping_add(it.offset));
    let mut write = |at: usize, value: u64, len: usize| {
        if let Some(into) = at.checked_add(len).and_then(|end| bytes.get_mut(at..end)) {
            into.copy_from_slice(&value.to_le_bytes()[..len]);
        }
    };
    match elf::RelocationType(it.kind) {
        elf::R_X86_64_64 => write(at, value, 8),
        elf::R_X86_64_32 | elf::R_X86_64_32S => write(at, value, 4),
        elf::R_X86_64_PC64 => write(at, relative, 8),
        elf::R_X86_64_PC32 | elf::R_X86_64_PLT32 => write(at, relative, 4),
        elf::R_X86_64_GOTPCREL | elf::R_X86_64_GOTPCRELX | elf::R_X86_64_REX_GOTPCRELX => {
            let Some(opcode) = at.checked_sub(2).and_then(|at| bytes.get_mut(at..at + 2)) else { return };
            match opcode {
                [0xff, 0x15] => opcode.copy_from_slice(&[0x67, 0xe8]),
                [0xff, 0x25] => {
                    let jump = [&[0xe9][..], &relative.wrapping_add(1).to_le_bytes()[..4], &[0x90]].concat();
                    return put(bytes, it.offset - 2, &jump);
                }
                [0x8b, _] => opcode[0] = 0x8d,
                _ => return,
            }
            if let Some(into) = bytes.get_mut(at..at.saturating_add(4)) {
                into.copy_from_slice(&relative.to_le_bytes()[..4]);
            }
        }
        _ => (),
    }
}

/// Writes section headers to the end.
fn write_sections(out: &mut Vec<u8>, sections: &[Section]) {
    out.resize(out.len().next_multiple_of(8), 0);
    let at = out.len() as u64;
    put(out, field::SECTIONS_AT as u64, &at.to_le_bytes());
    put_short(out, field::SECTION_COUNT, u16::try_from(sections.len()).unwrap_or_default());
    debug_assert_eq!(SECTION_LEN, 64);
    out.extend(sections.iter().flat_map(Section::bytes));
}

fn to_usize(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
