//! Small ELF files, part by part.

/// A file in one segment, whose addresses are the places in the file.
#[derive(Clone)]
pub struct Made {
    pub text: Vec<u8>,
    pub records: Vec<u8>,
    pub definitions: Vec<u8>,
    /// Notes before the one of the probes.
    pub notes: Vec<u8>,
    /// Relocations, each a place, a type with a symbol, and an addend.
    pub relocations: Vec<[u64; 3]>,
}

/// The places of a file's parts.
#[derive(Clone, Copy, Debug)]
pub struct Places {
    pub text: u64,
    pub records: u64,
    pub definitions: u64,
    pub note: u64,
}

pub const NOP: [u8; 5] = [0x0f, 0x1f, 0x44, 0x00, 0x08];
/// Bytes of a definition.
pub const DEFINITION: usize = 192;
const HEADER: u64 = 64;
const PROGRAM_HEADER: u64 = 56;
/// The beginning of the text.
pub const TEXT: u64 = 512;

impl Made {
    pub fn new() -> Self {
        Self {
            text: Vec::new(),
            records: Vec::new(),
            definitions: Vec::new(),
            notes: Vec::new(),
            relocations: Vec::new(),
        }
    }

    /// A file with this many probes, each with one site.
    pub fn with_probes(many: u32) -> Self {
        let mut made = Self::new();
        for number in 0..many {
            made.probe(&format!("a::f{number}"), 1);
        }
        made.connect();
        made
    }

    /// Adds the definition of a probe; `connect` adds its site and its stub.
    pub fn probe(&mut self, path: &str, kind: u8) {
        let text = format!("{path}a.rs");
        let mut bytes = vec![0; 48];
        bytes[16..18].copy_from_slice(&1_u16.to_le_bytes());
        bytes[18..20].copy_from_slice(&192_u16.to_le_bytes());
        bytes[20] = kind;
        bytes[24..28].copy_from_slice(&7_u32.to_le_bytes());
        let lens = [path.len(), "a.rs".len(), 0, 0];
        for (at, len) in lens.into_iter().enumerate() {
            bytes[32 + 2 * at..][..2].copy_from_slice(&u16::try_from(len).unwrap_or(u16::MAX).to_le_bytes());
        }
        bytes.extend(text.as_bytes());
        bytes.resize(DEFINITION, 0);
        self.definitions.extend(bytes);
    }

    /// Makes a site, a cold block and a stub for each definition, and its record.
    pub fn connect(&mut self) {
        let many = self.definitions.len() / DEFINITION;
        // A site and its cold block, 16 bytes; then a stub, 16 bytes.
        self.text = [[0xcc; 16]; 2].concat().repeat(many);
        self.records = vec![0; many * 16];
        let places = self.places();
        for number in 0..many {
            let at = |offset: usize| places.text + 32 * number as u64 + offset as u64;
            let (site, target, stub) = (at(1), at(8), at(16));
            let definition = places.definitions + (DEFINITION * number) as u64;
            let text = &mut self.text[32 * number..][..32];
            text[1..6].copy_from_slice(&NOP);
            text[16..20].copy_from_slice(&[0x57, 0x48, 0x8d, 0x3d]);
            text[20..24].copy_from_slice(&relative(stub + 8, definition));
            text[24..26].copy_from_slice(&[0xff, 0x27]);
            let record = places.records + 16 * number as u64;
            let bytes = &mut self.records[16 * number..][..16];
            bytes[..4].copy_from_slice(&[1, 16, 1, 0]);
            for (field, to) in [(4, site), (8, target), (12, stub)] {
                bytes[field..field + 4].copy_from_slice(&relative(record + field as u64, to));
            }
        }
    }

    pub fn places(&self) -> Places {
        let round = |at: u64| at.next_multiple_of(64);
        let records = round(TEXT + self.text.len() as u64);
        let definitions = round(records + self.records.len() as u64);
        let note = round(definitions + self.definitions.len() as u64);
        Places { text: TEXT, records, definitions, note }
    }

    /// Returns the file.
    pub fn bytes(&self) -> Vec<u8> {
        let places = self.places();
        let mut file = vec![0; usize_of(HEADER)];
        file[..20].copy_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x3e\0");
        file[20] = 1;
        file[32..40].copy_from_slice(&HEADER.to_le_bytes());
        file[52..58].copy_from_slice(&[64, 0, 56, 0, 3, 0]);
        let mut notes = self.notes.clone();
        notes.extend(note(1, &self.offsets(places.note + notes.len() as u64 + 24)));
        let dynamic = (places.note + notes.len() as u64).next_multiple_of(16);
        let relocations = dynamic + 16 * 3;
        let end = relocations + 24 * self.relocations.len() as u64;
        for (kind, flags, start, size) in
            [(1_u32, 7_u32, 0, end), (4, 4, places.note, notes.len() as u64), (2, 6, dynamic, 48)]
        {
            file.extend(kind.to_le_bytes());
            file.extend(flags.to_le_bytes());
            for number in [start, start, start, size, size, 4] {
                file.extend(number.to_le_bytes());
            }
        }
        assert_eq!(file.len() as u64, HEADER + 3 * PROGRAM_HEADER);
        let parts = [
            (places.text, &self.text),
            (places.records, &self.records),
            (places.definitions, &self.definitions),
            (places.note, &notes),
        ];
        for (at, part) in parts {
            file.resize(usize_of(at), 0);
            file.extend(part);
        }
        file.resize(usize_of(dynamic), 0);
        let rela = 24 * self.relocations.len() as u64;
        for number in [7, relocations, 8, rela, 0, 0].into_iter().chain(self.relocations.concat()) {
            file.extend(number.to_le_bytes());
        }
        file
    }

    /// Returns the offsets of the note's descriptor at an address.
    fn offsets(&self, at: u64) -> Vec<u8> {
        let places = self.places();
        let ends = [
            places.records,
            places.records + self.records.len() as u64,
            places.definitions,
            places.definitions + self.definitions.len() as u64,
        ];
        let offset = |(number, end): (usize, u64)| end.wrapping_sub(at + 8 * number as u64).to_le_bytes();
        ends.into_iter().enumerate().flat_map(offset).collect()
    }
}

/// Returns a note of probes.
pub fn note(kind: u32, descriptor: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in [12, u32::try_from(descriptor.len()).unwrap_or(u32::MAX), kind] {
        bytes.extend(word.to_le_bytes());
    }
    bytes.extend(b"LatentProbe\0");
    bytes.extend(descriptor);
    bytes
}

/// Returns a 32-bit offset.
pub fn relative(from: u64, to: u64) -> [u8; 4] {
    let offset = to.wrapping_sub(from).cast_signed();
    i32::try_from(offset).unwrap_or(i32::MAX).to_le_bytes()
}

fn usize_of(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
