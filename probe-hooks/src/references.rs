//! Places in code that lead to the hooks. Pure: bytes in, addresses out.

use std::collections::BTreeMap;

use probe_core::abi::Kind;

use crate::code::Target;

/// The ways to the hooks in an object.
#[derive(Clone, Default, Debug)]
pub struct HookTargets {
    /// Words that have a hook's address.
    words: BTreeMap<usize, Kind>,
    /// Entries of linkage tables, and the hooks themselves.
    code: BTreeMap<usize, Kind>,
    are_one: bool,
}

impl HookTargets {
    /// Makes the ways of an object with these words, and with hooks at these addresses.
    pub fn new(
        words: impl IntoIterator<Item = (usize, Kind)>,
        hooks: impl IntoIterator<Item = (usize, Kind)>,
    ) -> Self {
        let (words, mut code, mut are_one) = (words.into_iter().collect(), BTreeMap::new(), false);
        for (addr, kind) in hooks {
            are_one |= code.insert(addr, kind).is_some_and(|other| other != kind);
        }
        Self { words, code, are_one }
    }

    /// Returns whether one function is both hooks, so that only the order of uses tells their
    /// kinds ([`tell_apart`](crate::tell_apart)).
    pub fn are_one(&self) -> bool {
        self.are_one
    }

    /// Returns whether no way leads to a hook.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty() && self.code.is_empty()
    }

    /// Returns the hook that a target leads to.
    pub fn hook(&self, target: Target) -> Option<Kind> {
        match target {
            Target::Direct(there) => self.code.get(&there).copied(),
            Target::Through(there) => self.words.get(&there).copied(),
        }
    }

    /// Adds the entries of linkage tables in some code that jump through the words.
    pub fn add_entries(&mut self, code: &[u8], base: usize) {
        /// The bytes of an entry before the distance of its pointer.
        const BEFORE: [usize; 6] = [2, 3, 6, 7, 8, 12];
        let words: Vec<_> = self.words.keys().copied().collect();
        for at in references(code, base, &words) {
            for start in BEFORE.iter().filter_map(|len| (at - base).checked_sub(*len)) {
                if let Some(word) = linkage_word(base + start, &code[start..])
                    && let Some(kind) = self.hook(Target::Through(word))
                    && word == at.wrapping_add(4).wrapping_add_signed(distance(code, at - base))
                {
                    self.code.insert(base + start, kind);
                }
            }
        }
    }

    /// Returns the addresses in some code that may be an instruction's distance to one of them,
    /// ascending.
    pub fn references(&self, code: &[u8], base: usize) -> Vec<usize> {
        let places: Vec<_> = self.words.keys().chain(self.code.keys()).copied().collect();
        references(code, base, &places)
    }
}

/// The length of the longest entry of a linkage table that is understood, in bytes.
pub const MAX_LINKAGE_ENTRY_LEN: usize = 17;

/// Returns the address of the word that an entry of a linkage table jumps through:
/// `[endbr64] [mov r11d, imm32] [bnd] jmp [rip + rel32]`. The second is mold's.
pub fn linkage_word(addr: usize, entry: &[u8]) -> Option<usize> {
    let mut at = if entry.starts_with(&[0xf3, 0x0f, 0x1e, 0xfa]) { 4 } else { 0 };
    if entry.get(at..at + 2) == Some(&[0x41, 0xbb]) {
        at += 6;
    }
    at += usize::from(entry.get(at) == Some(&0xf2));
    let is_jump = entry.get(at..at + 2)? == [0xff, 0x25] && entry.len() >= at + 6;
    is_jump.then(|| addr.wrapping_add(at + 6).wrapping_add_signed(distance(entry, at + 2)))
}

fn distance(code: &[u8], at: usize) -> isize {
    code.get(at..at + 4).and_then(|it| it.try_into().ok()).map_or(0, i32::from_le_bytes) as isize
}

/// Bits of a filter of targets.
const FILTER_BITS: usize = 1 << 16;

/// Returns the addresses in some code that may be an instruction's distance to one of these,
/// ascending. Code that jumps to the hooks by itself, in place of a linkage table, has thousands.
#[expect(clippy::cast_possible_truncation, reason = "modulo 2³²")]
fn references(code: &[u8], base: usize, targets: &[usize]) -> Vec<usize> {
    // Modulo 2³², so that each place takes an addition and a comparison, with most targets at once.
    let mut distances: Vec<_> =
        targets.iter().map(|it| it.wrapping_sub(base).wrapping_sub(4) as u32).collect();
    distances.sort_unstable();
    if distances.is_empty() {
        return Vec::new();
    }
    let mut filter = vec![0_u64; FILTER_BITS / 64];
    for distance in &distances {
        filter[*distance as usize % FILTER_BITS / 64] |= 1 << (distance % 64);
    }
    let mut found = Vec::new();
    // A plain loop, since unoptimised builds scan megabytes as well.
    let (mut distance, mut end) = (0_u32, 0);
    while end < code.len() {
        distance = distance >> 8 | u32::from(code[end]) << 24;
        end += 1;
        let there = distance.wrapping_add((end as u32).wrapping_sub(4));
        if filter[there as usize % FILTER_BITS / 64] >> (there % 64) & 1 != 0
            && end >= 4
            && distances.binary_search(&there).is_ok()
        {
            found.push(base + end - 4);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The words of the hooks' addresses, and code in a linkage table that jumps through the first.
    fn hook_targets() -> HookTargets {
        HookTargets::new([(0x4000, Kind::Entry), (0x4008, Kind::Exit)], [])
    }

    #[test]
    fn linkage_tables_lead_to_hooks() {
        // At 0x1000: jmp [0x4000]; at 0x1010: endbr64, bnd jmp [0x4008]; at 0x1020: jmp [0x4010];
        // at 0x1030: endbr64, mov r11d, 1, jmp [0x4000].
        let mut code = [0x90; 0x40];
        code[0x30..]
            .copy_from_slice(&[0xf3, 0x0f, 0x1e, 0xfa, 0x41, 0xbb, 1, 0, 0, 0, 0xff, 0x25, 0xc0, 0x2f, 0, 0]);
        code[..6].copy_from_slice(&[0xff, 0x25, 0xfa, 0x2f, 0, 0]);
        code[0x10..0x1b].copy_from_slice(&[0xf3, 0x0f, 0x1e, 0xfa, 0xf2, 0xff, 0x25, 0xed, 0x2f, 0, 0]);
        code[0x20..0x26].copy_from_slice(&[0xff, 0x25, 0xea, 0x2f, 0, 0]);
        let mut hook_targets = hook_targets();
        hook_targets.add_entries(&code, 0x1000);
        let there = |addr| hook_targets.hook(Target::Direct(addr));
        assert_eq!((there(0x1000), there(0x1010)), (Some(Kind::Entry), Some(Kind::Exit)));
        // Behind its `endbr64` and its prefix, too.
        assert_eq!((there(0x1014), there(0x1015)), (Some(Kind::Exit), Some(Kind::Exit)));
        assert_eq!((there(0x1030), there(0x1034)), (Some(Kind::Entry), Some(Kind::Entry)));
        assert_eq!((there(0x1020), there(0x1001)), (None, None));
        assert_eq!(hook_targets.hook(Target::Through(0x4008)), Some(Kind::Exit));
        assert_eq!(hook_targets.hook(Target::Through(0x1000)), None);
        assert!(!hook_targets.are_one());
        assert!(HookTargets::new([], [(0x2000, Kind::Entry), (0x2000, Kind::Exit)]).are_one());
    }

    #[test]
    fn each_kind_of_instruction_refers_to_a_hook() {
        // call; jmp; je; call [..]; jmp [..]; mov rbx, [..]
        let code = |distance: i32| {
            let opcodes: [&[u8]; 6] =
                [&[0xe8], &[0xe9], &[0x0f, 0x84], &[0xff, 0x15], &[0xff, 0x25], &[0x48, 0x8b, 0x1d]];
            opcodes.map(|opcode| [opcode, &distance.to_le_bytes()].concat())
        };
        for one in code(0x100) {
            let end = 0x1000 + one.len();
            assert_eq!(references(&one, 0x1000, &[7, end + 0x100]), [end - 4]);
            assert_eq!(references(&one, 0x1000, &[end + 0x101]), [0; 0]);
        }
        for one in code(-0x100) {
            let end = 0x1000 + one.len();
            assert_eq!(references(&one, 0x1000, &[1, 2, 3, 4, 5, end - 0x100]), [end - 4]);
        }
    }

    proptest! {
        #[test]
        fn never_panics(code: Vec<u8>, base in 0..1_usize << 47, targets: Vec<usize>) {
            let _ = references(&code, base, &targets);
            hook_targets().add_entries(&code, base);
        }
    }
}
