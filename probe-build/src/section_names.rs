//! The names of an object's sections.
//!
//! GNU as takes time by the square of the number of sections with one name, and each function in a
//! section of its own needs its own sections of records and definitions. So each of these has a
//! name of its own in the assembly. In the object, the name is cut where its own part begins:
//!
//! ```text
//! assembled   …\0.relaprobe_sites.probe17\0…     also the end of another name, as strings may be
//! cut         …\0.relaprobe_sites\0probe17\0…
//! ```
//! Nothing moves, and no header changes.

/// The beginning of a name's own part.
pub(crate) const UNIQUE: &str = ".probe";

/// The names that sections share.
const COMMON: [&str; 2] = ["probe_sites", "linkme_PROBE_DEFINITIONS_V1"];

/// Cuts the names in an object file, and returns how many; the text says why it can't be done.
pub(crate) fn cut(object: &mut [u8]) -> Result<usize, &'static str> {
    const CUT_SHORT: &str = "the assembler's object ends too early";
    if !object.starts_with(b"\x7fELF\x02\x01") {
        return Err("the assembler makes no object of x86-64");
    }
    let sections = Sections::read(object).ok_or(CUT_SHORT)?;
    let mut cuts = 0;
    for section in 0..sections.count {
        let at = sections.name(object, section).ok_or(CUT_SHORT)?;
        if let Some(length) = common_part(object.get(at..).ok_or(CUT_SHORT)?) {
            object[at + length] = 0;
            cuts += 1;
        }
    }
    Ok(cuts)
}

/// Returns the length of the common part of the name with which these bytes begin.
fn common_part(name: &[u8]) -> Option<usize> {
    let relocations = if name.starts_with(b".rela") { ".rela".len() } else { 0 };
    let shared = COMMON.iter().find(|shared| name[relocations..].starts_with(shared.as_bytes()))?;
    let length = relocations + shared.len();
    name[length..].starts_with(UNIQUE.as_bytes()).then_some(length)
}

/// The table of section headers.
struct Sections {
    start: usize,
    count: usize,
    /// The start of the names.
    names: usize,
}

impl Sections {
    const HEADER: usize = 64;

    fn read(object: &[u8]) -> Option<Self> {
        let start = usize::try_from(number::<8>(object, 0x28)?).ok()?;
        let (mut count, mut names) = (number::<2>(object, 0x3c)?, number::<2>(object, 0x3e)?);
        // Numbers that are too large for 16 bits stand in the first header.
        if count == 0 {
            count = number::<8>(object, start.checked_add(0x20)?)?;
        }
        if names == 0xffff {
            names = number::<4>(object, start.checked_add(0x28)?)?;
        }
        let mut sections = Self { start, count: usize::try_from(count).ok()?, names: 0 };
        let header = sections.header(usize::try_from(names).ok()?)?;
        sections.names = usize::try_from(number::<8>(object, header.checked_add(0x18)?)?).ok()?;
        Some(sections)
    }

    fn header(&self, section: usize) -> Option<usize> {
        section.checked_mul(Self::HEADER)?.checked_add(self.start)
    }

    /// Returns where a section's name begins.
    fn name(&self, object: &[u8], section: usize) -> Option<usize> {
        let name = usize::try_from(number::<4>(object, self.header(section)?)?).ok()?;
        self.names.checked_add(name)
    }
}

/// Reads a number of `N` bytes.
fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<u64> {
    let read = bytes.get(at..)?.first_chunk::<N>()?;
    Some(read.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns an object with such sections. If they are many, their numbers are in the first
    /// header.
    fn made(names: &[String]) -> Vec<u8> {
        let mut strings = vec![0];
        let mut headers = vec![[0; 64]];
        for name in names {
            let mut header = [0; 64];
            header[..4].copy_from_slice(&u32::try_from(strings.len()).unwrap().to_le_bytes());
            headers.push(header);
            strings.extend([name.as_bytes(), &[0]].concat());
        }
        let (count, last) = (headers.len() + 1, headers.len());
        let start = 64 + strings.len();
        headers.push([0; 64]);
        headers[last][0x18..0x20].copy_from_slice(&64_u64.to_le_bytes());
        headers[0][0x20..0x28].copy_from_slice(&count.to_le_bytes());
        headers[0][0x28..0x2c].copy_from_slice(&u32::try_from(last).unwrap().to_le_bytes());
        let mut object = b"\x7fELF\x02\x01".to_vec();
        object.resize(64, 0);
        object[0x28..0x30].copy_from_slice(&start.to_le_bytes());
        let narrow =
            |number: usize, many| u16::try_from(number).ok().filter(|it| *it < 0xff00).unwrap_or(many);
        object[0x3c..0x3e].copy_from_slice(&narrow(count, 0).to_le_bytes());
        object[0x3e..0x40].copy_from_slice(&narrow(last, 0xffff).to_le_bytes());
        object.extend(strings);
        object.extend(headers.concat());
        object
    }

    fn names(object: &[u8]) -> Vec<String> {
        let sections = Sections::read(object).unwrap();
        let name = |section| {
            let name = &object[sections.name(object, section).unwrap()..];
            String::from_utf8(name.split(|byte| *byte == 0).next().unwrap().to_vec()).unwrap()
        };
        (1..sections.count - 1).map(name).collect()
    }

    #[test]
    fn names_lose_their_own_parts() {
        let given = [
            ("probe_sites.probe0", "probe_sites"),
            ("probe_sites", "probe_sites"),
            (".relaprobe_sites.probe17", ".relaprobe_sites"),
            ("linkme_PROBE_DEFINITIONS_V1.probe0123abcd", "linkme_PROBE_DEFINITIONS_V1"),
            ("probe_sites_of_mine", "probe_sites_of_mine"),
            ("x.probe_sites.probe1", "x.probe_sites.probe1"),
            (".rela", ".rela"),
        ];
        let mut object = made(&given.map(|(name, _)| name.to_owned()));
        assert_eq!(cut(&mut object), Ok(3));
        assert_eq!(names(&object), given.map(|(_, name)| name));
        assert_eq!(cut(&mut object), Ok(0));
    }

    /// Assemblers share the ends of names.
    #[test]
    fn names_within_names_are_cut_once() {
        let mut object = made(&[".relaprobe_sites.probe1".to_owned(), "other".to_owned()]);
        let sections = Sections::read(&object).unwrap();
        let inner = number::<4>(&object, sections.header(1).unwrap()).unwrap() + 5;
        let header = sections.header(2).unwrap();
        object[header..header + 4].copy_from_slice(&u32::try_from(inner).unwrap().to_le_bytes());
        assert_eq!(cut(&mut object), Ok(1));
        assert_eq!(names(&object), [".relaprobe_sites", "probe_sites"]);
    }

    /// More sections than 16 bits can count.
    #[test]
    fn objects_of_many_sections() {
        let given: Vec<_> = (0..70_000).map(|number| format!("probe_sites.probe{number}")).collect();
        let mut object = made(&given);
        assert_eq!(cut(&mut object), Ok(70_000));
        assert!(names(&object).iter().all(|name| name == "probe_sites"));
    }

    proptest! {
        #[test]
        fn no_object_is_read_beyond_its_end(
            cuts in 0_usize..300, at in 0_usize..300, bytes in prop::array::uniform8(any::<u8>()),
        ) {
            let mut object = made(&["probe_sites.probe0".to_owned(), "b".to_owned()]);
            object.truncate(object.len().saturating_sub(cuts));
            for (place, byte) in object.iter_mut().skip(at).zip(bytes) {
                *place = byte;
            }
            let _ = cut(&mut object);
        }
    }
}
