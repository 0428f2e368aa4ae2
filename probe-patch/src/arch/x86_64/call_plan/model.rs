//! Checks the plans of this module against the [model](crate::engine::model) of instruction fetch:
//! any number of switches, without any sync between them.

use std::collections::HashSet;

use proptest::prelude::*;

use super::{CallPlan, Opcode, Split, Trampolines, Wanted, Words, call_plan};
use crate::arch::x86_64::model::{Effect, effect};
use crate::arch::{SiteAddr, TextWord};
use crate::engine::bytes::Bytes;
use crate::engine::error::PatchError;
use crate::engine::model::{History, LINE, Memory, ModelStep, fetched};

/// Targets of calls. The distances to two of them end in the same three bytes, wherever the site
/// is. The third one is farther away.
const TARGET: usize = LINE + 0x1_2340;
const NEAR: usize = TARGET + 0x20;
const FAR: usize = TARGET + 0x1145_6780;
/// The address of a lone `ret`.
const RET: usize = LINE - 0x80_0000;

struct OneRet;

impl Trampolines for OneRet {
    fn has(&self, addr: usize) -> bool {
        addr == RET
    }

    fn near(&self, _site: SiteAddr) -> Option<usize> {
        Some(RET)
    }
}

fn call(addr: usize, target: usize) -> Bytes {
    let distance = i32::try_from(target.cast_signed() - (addr + 5).cast_signed()).expect("it is near");
    let [a, b, c, d] = distance.to_le_bytes();
    Bytes::from([0xe8, a, b, c, d])
}

fn bytes(memory: &Memory, addr: usize) -> Bytes {
    Bytes::new(&memory.bytes(addr, 5)).expect("five bytes")
}

/// Switches a site by the plan. Returns whether that took a write.
fn switch(history: &mut History, addr: usize, wanted: Wanted) -> Result<bool, PatchError> {
    let site = SiteAddr(addr);
    let word = |at| TextWord(history.now().word(at));
    let words = Words { first: word(site.word()), second: word(site.word() + 8) };
    match call_plan(site, words, wanted, &OneRet)? {
        CallPlan::Unchanged => Ok(false),
        CallPlan::Write { addr, expected, new } => {
            assert_eq!(history.now().word(addr), expected.0);
            history.push(ModelStep::Write { word: addr, mask: u64::MAX, to: new.0 });
            Ok(true)
        }
        CallPlan::Provide => unreachable!("there is one"),
    }
}

/// Returns the possible effects of executing a site, at any time in its history.
fn effects(history: &History, addr: usize, granule: usize) -> HashSet<Effect> {
    let decode = |bytes: Bytes| effect(addr, bytes[..].try_into().expect("five bytes"));
    // A call of a lone `ret` has no effect, and neither has a jump to the next instruction.
    let idle = |effect| match effect {
        Effect::Call(RET) => Effect::Skip,
        Effect::Jump(target) if target == addr + 5 => Effect::Skip,
        other => other,
    };
    fetched(history, addr, 5, granule).into_iter().map(decode).map(idle).collect()
}

/// Returns sites at any offset in a word. The end of the word may be that of a cache line.
fn site() -> impl Strategy<Value = usize> {
    prop_oneof![LINE - 8..LINE, LINE + 8..LINE + 16]
}

fn wanted() -> impl Strategy<Value = Wanted> {
    use Opcode::{Call, Jump};
    let opcode = prop_oneof![Just(Call), Just(Jump)];
    let target = prop_oneof![Just(TARGET), Just(NEAR), Just(FAR)];
    prop_oneof![
        Just(Wanted::Latent),
        (opcode, target).prop_map(|(opcode, target)| Wanted::Active(opcode, target))
    ]
}

/// Returns the effect of a site that is as wanted.
fn effect_of(wanted: Wanted) -> Effect {
    match wanted {
        Wanted::Latent => Effect::Skip,
        Wanted::Active(Opcode::Call, target) => Effect::Call(target),
        Wanted::Active(Opcode::Jump, target) => Effect::Jump(target),
    }
}

/// Switches a site off and on, six times, by the plan and without a sync. Threads see the call and
/// the deactivated call alone, at every offset.
#[test]
fn toggling_shows_the_two_instructions() {
    for addr in LINE - 8..LINE {
        let active = call(addr, TARGET);
        let mut history = History::of(addr, active, &[]);
        for toggle in 0..6 {
            let wanted = if toggle % 2 == 0 { Wanted::Latent } else { Wanted::Active(Opcode::Call, TARGET) };
            assert!(switch(&mut history, addr, wanted).unwrap());
            let latent = match Split::of(SiteAddr(addr)) {
                Split::None => Bytes::from([0x0f, 0x1f, 0x44, 0x00, 0x08]),
                Split::Distance => Bytes::from([0xeb, 3, active[2], active[3], active[4]]),
                Split::Opcode => call(addr, RET),
            };
            for granule in [8, 16, 64] {
                assert_eq!(fetched(&history, addr, 5, granule), [active, latent].into());
            }
            assert_eq!(bytes(history.now(), addr), if toggle % 2 == 0 { latent } else { active });
            assert_eq!(effects(&history, addr, 8), [Effect::Call(TARGET), Effect::Skip].into());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// Switches to calls, jumps and targets, on and off, in any order. Threads see only effects
    /// that were wanted and written. A refused switch leaves no trace.
    #[test]
    fn any_switches_show_what_was_wanted(addr in site(), all in proptest::collection::vec(wanted(), 1..=6)) {
        let mut history = History::of(addr, call(addr, TARGET), &[]);
        let mut allowed = HashSet::from([Effect::Call(TARGET)]);
        for wanted in all {
            let before = history.now().clone();
            if switch(&mut history, addr, wanted).is_ok() {
                allowed.insert(effect_of(wanted));
                let now = History::new(history.now().clone());
                prop_assert_eq!(effects(&now, addr, 8), [effect_of(wanted)].into());
            } else {
                prop_assert_eq!(history.now(), &before);
            }
        }
        for granule in [8, 16, 64] {
            prop_assert!(effects(&history, addr, granule).is_subset(&allowed));
        }
        for at in (LINE - 16..addr).chain(addr + 5..LINE + 24) {
            prop_assert_eq!(history.now().byte(at), 0xf4, "neighbours stay");
        }
    }

    /// Sets several targets, one after the other, where the opcode lies alone in its word: no call
    /// leads anywhere else.
    #[test]
    fn split_after_the_opcode_targets_may_change_at_any_time(
        targets in proptest::collection::vec(LINE - 0x4000_0000..LINE + 0x4000_0000, 1..=6),
    ) {
        let addr = LINE - 1;
        let mut history = History::of(addr, call(addr, TARGET), &[]);
        let mut allowed = HashSet::from([Effect::Call(TARGET)]);
        for target in targets {
            switch(&mut history, addr, Wanted::Active(Opcode::Call, target)).unwrap();
            allowed.insert(if target == RET { Effect::Skip } else { Effect::Call(target) });
        }
        prop_assert_eq!(effects(&history, addr, 8), allowed);
    }
}

/// Shows that the model finds errors: a switch that changes both words is torn, and so is one write
/// if fetches have no granule.
#[test]
fn what_this_module_does_not_do_is_torn() {
    for addr in LINE - 4..LINE {
        let nop = Bytes::from([0x0f, 0x1f, 0x44, 0x00, 0x08]);
        let writes = crate::engine::model::write(addr, 0, nop);
        assert_eq!(writes.len(), 2);
        for writes in [[writes[0], writes[1]], [writes[1], writes[0]]] {
            let history = History::of(addr, call(addr, TARGET), &writes);
            assert!(!effects(&history, addr, 8).is_subset(&[Effect::Call(TARGET), Effect::Skip].into()));
        }
        // A sync in between does not help: the call leads astray until the opcode is replaced.
        let history = History::of(addr, call(addr, TARGET), &[writes[1], ModelStep::Sync, writes[0]]);
        assert!(!effects(&history, addr, 8).is_subset(&[Effect::Call(TARGET), Effect::Skip].into()));
    }
    for addr in LINE - 8..LINE {
        let mut history = History::of(addr, call(addr, TARGET), &[]);
        switch(&mut history, addr, Wanted::Latent).unwrap();
        assert!(
            !effects(&history, addr, 1).is_subset(&[Effect::Call(TARGET), Effect::Skip].into()),
            "{addr:#x}"
        );
    }
}

/// Writes a call with another tail, which the plan refuses. Threads see it torn.
#[test]
fn a_tail_that_is_refused_would_be_torn() {
    for addr in LINE - 4..LINE - 1 {
        let mut history = History::of(addr, call(addr, TARGET), &[]);
        let refused = switch(&mut history, addr, Wanted::Active(Opcode::Call, FAR)).unwrap_err();
        assert!(matches!(refused, PatchError::Tail { .. }), "{refused}");
        for step in crate::engine::model::write(addr, 0, call(addr, FAR)) {
            history.push(step);
        }
        let allowed = [Effect::Call(TARGET), Effect::Call(FAR)].into();
        assert!(!effects(&history, addr, 8).is_subset(&allowed));
    }
}
