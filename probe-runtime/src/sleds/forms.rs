//! The bytes of sleds: as compilers leave them, and as a CALL of a stub. Pure.
//!
//! | form | in the file | latent | active | one write |
//! |---|---|---|---|---|
//! | NOP of 5 | `0f 1f 44 00 08` | the same | `e8 rel32` | as any site |
//! | NOP of 6 | `66 0f 1f 44 00 08` | the same | `2e e8 rel32` | of 6 bytes |
//! | bytes | `90 90 90 90 90` | the same | `e8 90 90 90 90` | of 1 byte |
//! | longer NOP | `0f 1f 80 …` | `eb len-2`, `e8 rel32`, NOP | `66 90`, the rest | of 2 bytes |
//! | XRay's jump | `eb 09`, 9 bytes of NOP | `eb 09`, `e8 rel32`, NOP | `66 90`, the rest | of 2 bytes |
//! | XRay's return | `c3 …`, 10 bytes of NOP | `c3 …`, `e8 rel32`, `c3` | `66 90`, the rest | of 2 bytes |
//!
//! # NOPs of one byte
//! A thread may be between any two of them, so only the first one can be written, ever. The other
//! four then are the distance of the CALL: it leads 1.87 GB below ([`pun`]), where a page is mapped
//! that leads on to the stub. A thread that stands at one of the four executes NOPs, as before.
//!
//! # The rest
//! No thread executes what lies behind a latent jump or return. It is written before the first
//! activation, and threads are made to see it. It stays when the sled is latent again, since a
//! thread may be on its way back from the CALL. The first two bytes lie in one aligned word.

use probe_hooks::{Sled, SledForm};

use crate::engine::sites::{Bytes, Instruction, MAX_LEN, Plan, Rel32, SITE_LEN, SiteAddr};

const CALL: u8 = 0xe8;
const RET: u8 = 0xc3;
const JMP_SHORT: u8 = 0xeb;
const CS: u8 = 0x2e;
const NOP: u8 = 0x90;
/// A NOP of two bytes.
const NOP2: [u8; 2] = [0x66, NOP];
/// The distance of the CALL that five NOPs become.
pub(super) const PUN: i32 = i32::from_le_bytes(NOPS4);
const NOPS4: [u8; 4] = [NOP; 4];
/// The offset of the CALL behind a jump or return.
const REST: usize = 2;

/// NOPs of 0 to 8 bytes.
const NOPS: [&[u8]; 9] = [
    &[],
    &[0x90],
    &[0x66, 0x90],
    &[0x0f, 0x1f, 0x00],
    &[0x0f, 0x1f, 0x40, 0x00],
    &[0x0f, 0x1f, 0x44, 0x00, 0x00],
    &[0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00],
    &[0x0f, 0x1f, 0x80, 0x00, 0x00, 0x00, 0x00],
    &[0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00],
];

/// The first user address that no program has.
const LAST: usize = 0x7fff_ffff_f000;
/// Nothing is mapped below by default (`vm.mmap_min_addr`).
const FIRST: usize = 0x1_0000;

/// Returns the address that five NOPs at `at` lead to, once the first is a CALL; `None` if a
/// program can have nothing there.
pub(super) fn pun(at: usize) -> Option<usize> {
    let there = at.checked_add(SITE_LEN)?.checked_add_signed(PUN as isize)?;
    (FIRST..LAST).contains(&there).then_some(there)
}

/// The bytes of one sled, in the three states of its head, and behind that.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Forms {
    at: usize,
    /// The head as in the file. Equals `latent` but for a long NOP.
    original: Bytes,
    latent: Bytes,
    active: Bytes,
    /// Bytes behind the head that no state changes: the distance of a CALL that NOPs spell.
    fixed: &'static [u8],
    pub(super) rest: Option<Rest>,
}

/// Bytes that no thread executes while the sled is latent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Rest {
    pub(super) at: usize,
    len: usize,
    original: [u8; MAX_REST],
    prepared: [u8; MAX_REST],
}

/// The longest sled has 15 bytes.
const MAX_REST: usize = 13;

impl Rest {
    pub(super) fn original(&self) -> &[u8] {
        &self.original[..self.len]
    }

    pub(super) fn prepared(&self) -> &[u8] {
        &self.prepared[..self.len]
    }

    /// Returns the writes that prepare it, one for each aligned word.
    pub(super) fn plans(&self) -> impl Iterator<Item = Plan> {
        pieces(self.at, self.original(), self.prepared())
    }
}

/// Returns the replacements of some bytes by as many others, one for each aligned word.
pub(super) fn pieces(at: usize, from: &[u8], to: &[u8]) -> impl Iterator<Item = Plan> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let len = (MAX_LEN - (at + done) % MAX_LEN).min(from.len() - done);
        let part = done..done + len;
        done += len;
        Plan::new(at + part.start, Bytes::new(from.get(part.clone())?)?, Bytes::new(to.get(part)?)?)
    })
}

/// The state of a sled's head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Head {
    /// As in the file, and not latent yet.
    Original,
    Latent,
    Active,
}

impl Forms {
    /// Returns the bytes of a sled at `at`, whose CALL leads to `stub`; `None` if that is out of
    /// reach, or the sled is a site.
    pub(super) fn of(sled: &Sled, at: usize, stub: usize) -> Option<Self> {
        let bytes = &sled.bytes[..usize::from(sled.form.size())];
        let call = |offset: usize| Some(call(Rel32::between(SiteAddr(at + offset), stub)?));
        let head = |len: usize| Bytes::new(bytes.get(..len)?);
        let of = |original, latent, active, rest| Self { at, original, latent, active, fixed: &[], rest };
        match sled.form {
            SledForm::Bytes => Some(Self { fixed: &NOPS4, ..of(head(1)?, head(1)?, [CALL].into(), None) }),
            SledForm::Nop(6) => {
                let mut active = [CS; 6];
                active[1..].copy_from_slice(&call(1)?);
                Some(of(head(6)?, head(6)?, active.into(), None))
            }
            SledForm::Nop(len) => {
                let latent = [JMP_SHORT, len.checked_sub(2)?].into();
                let filler = NOPS.get(usize::from(len).checked_sub(REST + SITE_LEN)?)?;
                let rest = Rest::new(at, bytes, &call(REST)?, filler)?;
                Some(of(head(2)?, latent, NOP2.into(), Some(rest)))
            }
            SledForm::Jump => {
                let rest = Rest::new(at, bytes, &call(REST)?, NOPS[4])?;
                Some(of(head(2)?, head(2)?, NOP2.into(), Some(rest)))
            }
            SledForm::Return => {
                let rest = Rest::new(at, &bytes[..=REST + SITE_LEN], &call(REST)?, &[RET])?;
                Some(of(head(2)?, head(2)?, NOP2.into(), Some(rest)))
            }
        }
    }

    /// Returns the address after the CALL.
    #[cfg(probe_values)]
    pub(super) fn after(&self) -> usize {
        // A head that is the CALL may have a prefix.
        let in_head = || self.at + self.active.iter().position(|byte| *byte == CALL).unwrap_or(0);
        self.rest.map_or_else(in_head, |rest| rest.at) + SITE_LEN
    }

    /// Returns the length of the head.
    pub(super) fn head_len(&self) -> usize {
        self.latent.len()
    }

    /// Returns the number of bytes that tell the state: the head, and those that never change.
    pub(super) fn told_by(&self) -> usize {
        self.head_len() + self.fixed.len()
    }

    /// Returns the end of the bytes that are written.
    pub(super) fn end(&self) -> usize {
        self.rest.map_or(self.at + self.latent.len(), |rest| rest.at + rest.len)
    }

    /// Returns the state that these bytes [tell](Self::told_by); `None` for foreign ones.
    pub(super) fn head(&self, found: &[u8]) -> Option<Head> {
        let head = found.strip_suffix(self.fixed)?;
        let states =
            [(self.latent, Head::Latent), (self.active, Head::Active), (self.original, Head::Original)];
        states.into_iter().find(|(bytes, _)| **bytes == *head).map(|(_, state)| state)
    }

    /// Returns the replacement of the head.
    pub(super) fn plan(&self, from: Head, to: Head) -> Option<Plan> {
        let bytes = |head| match head {
            Head::Original => self.original,
            Head::Latent => self.latent,
            Head::Active => self.active,
        };
        Plan::new(self.at, bytes(from), bytes(to))
    }

    /// Returns five bytes from the beginning, with this head.
    pub(super) fn expected(&self, head: Head, found: [u8; SITE_LEN]) -> [u8; SITE_LEN] {
        let mut bytes = found;
        let own = if head == Head::Active { self.active } else { self.latent };
        bytes.iter_mut().zip(own.iter().chain(self.fixed)).for_each(|(byte, own)| *byte = *own);
        bytes
    }
}

/// Returns a CALL's bytes.
fn call(rel: Rel32) -> [u8; SITE_LEN] {
    Instruction::call(rel).bytes()
}

impl Rest {
    fn new(at: usize, sled: &[u8], call: &[u8], end: &[u8]) -> Option<Self> {
        let mut rest = Self { at: at + REST, len: 0, original: [0; MAX_REST], prepared: [0; MAX_REST] };
        let all = call.iter().chain(end);
        for (original, prepared) in sled.get(REST..)?.iter().zip(all) {
            *rest.original.get_mut(rest.len)? = *original;
            rest.prepared[rest.len] = *prepared;
            rest.len += 1;
        }
        (rest.len == call.len() + end.len() && rest.len == sled.len() - REST).then_some(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use probe_hooks::Place;

    fn sled(form: SledForm, bytes: &[u8]) -> Sled {
        let mut all = [0; 15];
        all[..bytes.len()].copy_from_slice(bytes);
        assert_eq!(usize::from(form.size()), bytes.len());
        Sled { at: 0, function: 0, place: Place::Entry, form, bytes: all }
    }

    /// Returns the whole sled: as in the file, latent after preparation, and active.
    fn states(sled: &Sled, at: usize, stub: usize) -> [Vec<u8>; 3] {
        let forms = Forms::of(sled, at, stub).unwrap();
        let original = sled.bytes[..usize::from(sled.form.size())].to_vec();
        let mut now = original.clone();
        let write = |now: &mut Vec<u8>, plan: Plan| {
            assert_eq!(now[plan.addr() - at..][..plan.expected().len()], *plan.expected());
            now[plan.addr() - at..][..plan.value().len()].copy_from_slice(&plan.value());
        };
        if forms.original != forms.latent {
            write(&mut now, forms.plan(Head::Original, Head::Latent).unwrap());
        }
        for plan in forms.rest.iter().flat_map(Rest::plans) {
            assert!(plan.whole().is_some(), "one aligned word");
            write(&mut now, plan);
        }
        let latent = now.clone();
        write(&mut now, forms.plan(Head::Latent, Head::Active).unwrap());
        #[cfg(probe_values)]
        assert_eq!(now[forms.after() - SITE_LEN - at], CALL);
        [original, latent, now]
    }

    #[test]
    fn each_form_has_its_bytes() {
        // The stub lies 0x100 behind the sled.
        let of = |form, bytes: &[u8], at| states(&sled(form, bytes), at, at + 0x100);
        let jump = [0xeb, 9, 0x66, 0x0f, 0x1f, 0x84, 0, 0, 2, 0, 0];
        let [_, latent, active] = of(SledForm::Jump, &jump, 0x1006);
        assert_eq!(latent, [0xeb, 9, 0xe8, 0xf9, 0, 0, 0, 0x0f, 0x1f, 0x40, 0]);
        assert_eq!(active, [0x66, 0x90, 0xe8, 0xf9, 0, 0, 0, 0x0f, 0x1f, 0x40, 0]);
        let exit = [0xc3, 0x2e, 0x66, 0x0f, 0x1f, 0x84, 0, 0, 2, 0, 0];
        let [_, latent, active] = of(SledForm::Return, &exit, 0x1000);
        assert_eq!(latent, [0xc3, 0x2e, 0xe8, 0xf9, 0, 0, 0, 0xc3, 2, 0, 0]);
        assert_eq!(active, [0x66, 0x90, 0xe8, 0xf9, 0, 0, 0, 0xc3, 2, 0, 0]);
        let [original, latent, active] = of(SledForm::Bytes, &[0x90; 5], 0x1007);
        assert_eq!((&original, &*active), (&latent, &[0xe8, 0x90, 0x90, 0x90, 0x90][..]));
        let [_, latent, active] = of(SledForm::Nop(6), &[0x66, 0x0f, 0x1f, 0x44, 0, 8], 0x1001);
        assert_eq!((latent[0], &*active), (0x66, &[0x2e, 0xe8, 0xfa, 0, 0, 0][..]));
    }

    #[test]
    fn long_nops_become_jumps_over_themselves() {
        let nops: [&[u8]; 4] = [
            &[0x0f, 0x1f, 0x80, 0, 2, 0, 0],
            &[0x0f, 0x1f, 0x84, 0, 0, 2, 0, 0],
            &[0x2e, 0x66, 0x0f, 0x1f, 0x84, 0, 0, 2, 0, 0],
            &[0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 2, 0, 0],
        ];
        for nop in nops {
            let len = u8::try_from(nop.len()).unwrap();
            let [_, latent, active] = states(&sled(SledForm::Nop(len), nop), 0x1002, 0x1102);
            assert_eq!(latent[..2], [0xeb, len - 2]);
            assert_eq!(active[..7], [0x66, 0x90, 0xe8, 0xf9, 0, 0, 0]);
            assert_eq!((&latent[2..], &active[7..]), (&active[2..], NOPS[nop.len() - 7]));
        }
    }

    #[test]
    fn puns_lead_below() {
        assert_eq!(pun(0x5555_5555_5000), Some(0x5555_5555_5005 - 0x6f6f_6f70));
        assert_eq!((pun(0x40_1000), pun(usize::MAX)), (None, None));
        assert_eq!(pun(0x6f6f_6f6b), None, "nothing is mapped at 0");
    }

    #[test]
    fn heads_are_told_from_foreign_bytes() {
        let sled = sled(SledForm::Nop(7), &[0x0f, 0x1f, 0x80, 0, 2, 0, 0]);
        let forms = Forms::of(&sled, 0x1000, 0x2000).unwrap();
        let head = |bytes: [u8; 2]| forms.head(&bytes);
        assert_eq!(
            [[0x0f, 0x1f], [0xeb, 5], NOP2].map(head),
            [Some(Head::Original), Some(Head::Latent), Some(Head::Active)]
        );
        assert_eq!([[0xcc, 0x1f], [0x41, 0xba]].map(head), [None; 2]);
        assert_eq!(forms.expected(Head::Latent, [0xcc; 5]), [0xeb, 5, 0xcc, 0xcc, 0xcc]);
        assert_eq!(Forms::of(&sled, 0x1000, 1 << 40), None);
        // A breakpoint between the NOPs, or another runtime's CALL, would lead elsewhere.
        let forms = Forms::of(&self::sled(SledForm::Bytes, &[0x90; 5]), 0x1000, 0x2000).unwrap();
        assert_eq!((forms.told_by(), forms.head(&[0x90; 5])), (5, Some(Head::Latent)));
        assert_eq!(forms.head(&[0xe8, 0x90, 0x90, 0x90, 0x90]), Some(Head::Active));
        assert_eq!(forms.head(&[0x90, 0x90, 0xcc, 0x90, 0x90]), None);
        assert_eq!(forms.head(&[0xe8, 0x10, 0x20, 0, 0]), None);
        assert_eq!(forms.expected(Head::Latent, [0xe8, 0x10, 0x20, 0, 0]), [0x90; 5]);
    }
}
