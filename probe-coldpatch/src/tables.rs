//! The tables of sites, as docs/abi.md has them: note, records, stubs, definitions and their texts.
//! Pure layout: addresses in, bytes out.

use crate::patch::{Call, NOP, Probe, SITE_IN_THUNK, THUNK, distance, rel32};

/// Names of the new sections, as the binary interface and linkers know them.
pub(crate) const DEFINITIONS: &str = "linkme_PROBE_DEFINITIONS_V1";
pub(crate) const RECORDS: &str = "probe_sites";
pub(crate) const NOTE: &str = ".note.latent_probe";
pub(crate) const CODE: &str = ".text.latent_probe";
pub(crate) const TEXTS: &str = ".rodata.latent_probe";

/// Bytes of a definition, and of the text that fits into it.
const DEFINITION_SIZE: usize = 192;
pub(crate) const DEFINITION_LEN: u64 = DEFINITION_SIZE as u64;
const INLINE_TEXT: usize = 144;
/// Offsets in a definition: the text's address, and the text.
pub(crate) const TEXT_ADDR: u64 = 40;
const TEXT: usize = 48;
/// A call.
const CONVENTION: u16 = 2;
const RECORD_LEN: u64 = RECORD_HEAD[1] as u64;
/// The beginning of a record: version, size, form.
const RECORD_HEAD: [u8; 4] = [1, 16, 2, 0];
const STUB_LEN: u64 = 16;
const THUNK_LEN: u64 = THUNK.len() as u64;
/// The note's bytes, and those before its descriptor.
pub(crate) const NOTE_LEN: u64 = NOTE_HEAD + 32;
const NOTE_HEAD: u64 = 24;

/// The parts of the tables.
pub(crate) struct Tables<'a> {
    probes: &'a [Probe],
    calls: &'a [Call],
    /// Addresses of the parts.
    pub(crate) note: u64,
    pub(crate) records: u64,
    pub(crate) texts: u64,
    pub(crate) stubs: u64,
    pub(crate) thunks: u64,
    pub(crate) definitions: u64,
}

impl<'a> Tables<'a> {
    /// Returns tables without addresses.
    pub(crate) fn new(probes: &'a [Probe], calls: &'a [Call]) -> Self {
        Self { probes, calls, note: 0, records: 0, texts: 0, stubs: 0, thunks: 0, definitions: 0 }
    }

    pub(crate) fn records_len(&self) -> u64 {
        RECORD_LEN * self.calls.len() as u64
    }

    pub(crate) fn stubs_len(&self) -> u64 {
        STUB_LEN * self.probes.len() as u64
    }

    pub(crate) fn thunks_len(&self) -> u64 {
        THUNK_LEN * self.calls.iter().filter(|it| it.needs_thunk()).count() as u64
    }

    pub(crate) fn definitions_len(&self) -> u64 {
        DEFINITION_LEN * self.probes.len() as u64
    }

    /// Returns the texts that do not fit into their definitions, joined. Entry and exit share one.
    pub(crate) fn long_texts(&self) -> LongTexts {
        let mut texts = LongTexts::default();
        for probe in self.probes {
            let text = [probe.path.as_str(), &probe.file].concat();
            let place = (text.len() > INLINE_TEXT).then(|| {
                *texts.known.entry(text).or_insert_with_key(|text| {
                    let at = texts.bytes.len() as u64;
                    texts.bytes.extend_from_slice(text.as_bytes());
                    at
                })
            });
            texts.places.push(place);
        }
        texts
    }

    /// Returns the note.
    pub(crate) fn note(&self) -> Vec<u8> {
        let mut note = Vec::new();
        for number in [12_u32, 32, 1] {
            note.extend_from_slice(&number.to_le_bytes());
        }
        note.extend_from_slice(b"LatentProbe\0");
        let ends = [
            self.records,
            self.records + self.records_len(),
            self.definitions,
            self.definitions + self.definitions_len(),
        ];
        for (end, field) in ends.into_iter().zip((self.note + NOTE_HEAD..).step_by(8)) {
            note.extend_from_slice(&end.wrapping_sub(field).to_le_bytes());
        }
        note
    }

    /// Returns the records; `None` if a site is over 2 GiB away from its stub.
    pub(crate) fn records(&self) -> Option<Vec<u8>> {
        let mut records = Vec::new();
        for ((call, thunk), record) in
            self.calls.iter().zip(self.thunk_of()).zip((self.records..).step_by(16))
        {
            let site = thunk.map_or(call.site(), |thunk| thunk + SITE_IN_THUNK);
            let stub = self.stub(call.probe);
            distance(site + NOP.len() as u64, stub)?;
            records.extend_from_slice(&RECORD_HEAD);
            for (to, field) in [(site, 4), (stub, 8), (stub, 12)] {
                records.extend_from_slice(&distance(record + field, to)?);
            }
        }
        Some(records)
    }

    fn stub(&self, probe: usize) -> u64 {
        self.stubs + STUB_LEN * probe as u64
    }

    /// Returns the stubs; `None` if they are over 2 GiB away from the definitions.
    pub(crate) fn stubs(&self) -> Option<Vec<u8>> {
        let mut stubs = Vec::new();
        for (probe, _) in self.probes.iter().enumerate() {
            // push rdi; lea rdi, [definition]; jmp [rdi]
            stubs.extend_from_slice(&[0x57, 0x48, 0x8d, 0x3d]);
            stubs.extend_from_slice(&rel32(self.stub(probe) + 4, self.definition(probe))?);
            stubs.extend_from_slice(&[0xff, 0x27]);
            stubs.resize((probe + 1) * 16, 0xcc);
        }
        Some(stubs)
    }

    /// Returns the code of the sites that have no room in place of their jumps.
    pub(crate) fn thunks(&self) -> Vec<u8> {
        self.thunk_of().flatten().flat_map(|_| THUNK).collect()
    }

    /// Returns the address of each call's thunk.
    pub(crate) fn thunk_of(&self) -> impl Iterator<Item = Option<u64>> {
        let mut next = self.thunks;
        self.calls.iter().map(move |call| {
            call.needs_thunk().then(|| {
                next += THUNK_LEN;
                next - THUNK_LEN
            })
        })
    }

    pub(crate) fn definition(&self, probe: usize) -> u64 {
        self.definitions + DEFINITION_LEN * probe as u64
    }

    /// Returns the definitions, with the addresses of their long texts, if those need no
    /// relocation.
    pub(crate) fn definitions(&self, texts: &LongTexts, has_addrs: bool) -> Vec<u8> {
        let mut all = Vec::new();
        for (probe, long) in self.probes.iter().zip(&texts.places) {
            let mut bytes = [0; DEFINITION_SIZE];
            let text = [probe.path.as_bytes(), probe.file.as_bytes()].concat();
            let short = |len: usize| u16::try_from(len).unwrap_or(u16::MAX).to_le_bytes();
            let addr = long.filter(|_| has_addrs).map_or(0, |at| self.texts + at);
            let parts: [(usize, &[u8]); 8] = [
                (16, &1_u16.to_le_bytes()),
                (18, &short(bytes.len())),
                (20, &[probe.kind as u8]),
                (22, &CONVENTION.to_le_bytes()),
                (24, &probe.line.to_le_bytes()),
                (32, &short(probe.path.len())),
                (34, &short(probe.file.len())),
                (40, &addr.to_le_bytes()),
            ];
            for (at, part) in parts {
                bytes[at..at + part.len()].copy_from_slice(part);
            }
            if long.is_none() {
                bytes[TEXT..TEXT + text.len()].copy_from_slice(&text);
            }
            all.extend_from_slice(&bytes);
        }
        all
    }
}

/// Returns a record without its addresses.
pub(crate) fn record_head() -> [u8; 16] {
    let mut record = [0; 16];
    record[..4].copy_from_slice(&RECORD_HEAD);
    record
}

/// Texts outside of their definitions.
#[derive(Default)]
pub(crate) struct LongTexts {
    pub(crate) bytes: Vec<u8>,
    /// By probe, the place of its text.
    pub(crate) places: Vec<Option<u64>>,
    known: std::collections::HashMap<String, u64>,
}

impl LongTexts {
    /// Returns the addresses of the words that lead to texts, and those of the texts.
    pub(crate) fn words(&self, tables: &Tables<'_>) -> Vec<(u64, u64)> {
        let long = self.places.iter().enumerate().filter_map(|(probe, at)| Some((probe, (*at)?)));
        long.map(|(probe, at)| (tables.definition(probe) + TEXT_ADDR, tables.texts + at)).collect()
    }
}
