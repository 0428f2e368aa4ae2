//! The rule of one frame, as a word.

use probe_hooks::unwinding::{FrameBase, FramePointer, FrameRule};

/// How a frame leads to its caller's.
///
/// ```text
/// 0–31 the frame's distance from the register    32–55 the frame pointer's place from there    56–58 kind
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Rule(u64);

/// The meaning of a rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    FromStackPointer,
    FromFramePointer,
    Signal,
    Outermost,
    /// Nobody knows the frame, or not in the way that a rule can tell.
    Unknown,
}

const KINDS: [Kind; 5] =
    [Kind::FromStackPointer, Kind::FromFramePointer, Kind::Signal, Kind::Outermost, Kind::Unknown];
const PLACE_BITS: u32 = 24;
/// The place of a frame pointer that is in its register.
const IN_PLACE: i32 = 0;

impl Rule {
    pub(super) fn of(rule: Option<FrameRule>) -> Self {
        match rule {
            Some(FrameRule::Frame { base, offset, frame_pointer }) => {
                let kind = match base {
                    FrameBase::StackPointer => Kind::FromStackPointer,
                    FrameBase::FramePointer => Kind::FromFramePointer,
                };
                let lowest = -(1 << (PLACE_BITS - 1));
                let place = match frame_pointer {
                    FramePointer::InPlace => IN_PLACE,
                    FramePointer::At(place) if (lowest..IN_PLACE).contains(&place) => place,
                    FramePointer::At(_) => return Self::plain(Kind::Unknown),
                };
                let place = u64::from(place.cast_unsigned()) & ((1 << PLACE_BITS) - 1);
                Self(u64::from(offset.cast_unsigned()) | place << 32 | Self::plain(kind).0)
            }
            Some(FrameRule::Signal) => Self::plain(Kind::Signal),
            Some(FrameRule::Outermost) => Self::plain(Kind::Outermost),
            None => Self::plain(Kind::Unknown),
        }
    }

    /// Returns whether the frame begins with the caller's frame pointer, to which the frame pointer
    /// leads.
    #[inline(always)]
    pub(super) fn is_framed(self) -> bool {
        const FRAMED: u64 = 16 | ((1 << PLACE_BITS) - 16) << 32 | (Kind::FromFramePointer as u64) << 56;
        self.0 == FRAMED
    }

    fn plain(kind: Kind) -> Self {
        Self((kind as u64) << 56)
    }

    #[inline(always)]
    pub(super) fn of_word(word: u64) -> Self {
        Self(word)
    }

    #[inline(always)]
    pub(super) fn word(self) -> u64 {
        self.0
    }

    #[inline(always)]
    pub(super) fn kind(self) -> Kind {
        KINDS.get((self.0 >> 56) as usize).copied().unwrap_or(Kind::Unknown)
    }

    /// Returns the distance of the frame's beginning from its register.
    #[inline(always)]
    pub(super) fn offset(self) -> i64 {
        #[expect(clippy::cast_possible_truncation, reason = "the other half is other parts")]
        i64::from((self.0 as u32).cast_signed())
    }

    /// Returns the place of the caller's frame pointer, from the frame's beginning; `None` if it is
    /// in its register.
    #[inline(always)]
    pub(super) fn frame_pointer(self) -> Option<i64> {
        let place = (self.0 << (64 - 32 - PLACE_BITS)).cast_signed() >> (64 - PLACE_BITS);
        (place != i64::from(IN_PLACE)).then_some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_rule_is_what_it_was_made_of(offset: i32, place in -(1 << 23)..0_i32, is_kept: bool, is_framed: bool) {
            let base = if is_framed { FrameBase::FramePointer } else { FrameBase::StackPointer };
            let frame_pointer = if is_kept { FramePointer::At(place) } else { FramePointer::InPlace };
            let rule = Rule::of(Some(FrameRule::Frame { base, offset, frame_pointer }));
            let kind = if is_framed { Kind::FromFramePointer } else { Kind::FromStackPointer };
            prop_assert_eq!((rule.kind(), rule.offset()), (kind, offset.into()));
            prop_assert_eq!(rule.frame_pointer(), is_kept.then_some(place.into()));
            prop_assert_eq!(rule.is_framed(), is_framed && is_kept && (offset, place) == (16, -16));
            prop_assert_eq!(Rule::of_word(rule.word()), rule);
        }
    }

    #[test]
    fn a_frame_with_a_frame_pointer_is_known() {
        let [base, frame_pointer] = [FrameBase::FramePointer, FrameBase::StackPointer].map(|base| {
            Rule::of(Some(FrameRule::Frame { base, offset: 16, frame_pointer: FramePointer::At(-16) }))
        });
        assert!(base.is_framed() && !frame_pointer.is_framed());
    }

    #[test]
    fn other_rules_have_kinds_of_their_own() {
        for (rule, kind) in [
            (Some(FrameRule::Signal), Kind::Signal),
            (Some(FrameRule::Outermost), Kind::Outermost),
            (None, Kind::Unknown),
        ] {
            assert_eq!(Rule::of(rule).kind(), kind);
        }
        let above =
            FrameRule::Frame { base: FrameBase::StackPointer, offset: 8, frame_pointer: FramePointer::At(8) };
        assert_eq!(Rule::of(Some(above)).kind(), Kind::Unknown, "above the frame's beginning");
    }
}
