//! Switches sleds that are no sites: long or short NOPs, and XRay's.
//!
//! 1. Each head is read. Foreign bytes are left alone, and named.
//! 2. Before the first activation, a long NOP becomes a jump over itself, and what lies behind it
//!    becomes the CALL. Threads are made to see each of both before the next write.
//! 3. One write of an aligned word switches the head; if the head lies in two words, or the text is
//!    written through the kernel, or strictly, it goes through `int3`
//!    ([`word`](crate::patch::word)).
//!
//! Cost: as of sites, and two barriers for all sleds that are activated for the first time.

// Safety: relies on sleds that lie in the text of loaded objects, as `KeptLoaded` proves, and on
// `forms`: threads may execute any of the states.
#![expect(unsafe_code, reason = "see above")]

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use super::call_site::{SledSite, read};
use super::forms::{Forms, Head, Rest};
use crate::engine::os::cancel::Uncancellable;
use crate::engine::os::mem::Alias;
use crate::engine::os::objects::KeptLoaded;
use crate::engine::os::text::pages;
use crate::engine::sites::{
    Access, OpenText, PatchError, Refusal, RefusalReason, Report, SITE_LEN, SiteAddr, TextError, Writable,
    check_readable, reason_of, replace_each, synchronize, write_word,
};

/// A sled that has to change.
#[derive(Clone, Copy)]
struct Due<'a> {
    sled: &'a SledSite,
    forms: &'a Forms,
    head: Head,
}

/// A batch of sleds.
struct Batch<'a> {
    report: &'a mut Report,
    loaded: KeptLoaded<'a>,
    /// Whether every write goes through `int3`.
    is_strict: bool,
}

/// Switches sleds.
pub(super) fn switch(
    sleds: &[&'static SledSite],
    active: bool,
    access: Access,
    report: &mut Report,
    loaded: KeptLoaded<'_>,
) {
    let is_strict = matches!(access, Access::ByRunStrictly | Access::Alias);
    let mut batch = Batch { report, loaded, is_strict };
    let mut due: Vec<Due<'_>> = sleds.iter().filter_map(|sled| batch.due(sled, active)).collect();
    if due.is_empty() {
        return;
    }
    let _whole = Uncancellable::new();
    due.sort_unstable_by_key(|due| due.sled.at);
    if access == Access::Alias {
        match Alias::open() {
            Ok(alias) => {
                let (_, due) = batch.open(&due, check_readable);
                batch.carry_out(due, active, &Writable::Alias(Arc::new(alias)));
            }
            Err(error) => {
                let errno = error.raw_os_error().unwrap_or_default();
                due.iter().for_each(|due| batch.refuse(due.sled, RefusalReason::NoAlias { errno }));
            }
        }
        return;
    }
    let (open, due) = batch.open(&due, OpenText::new);
    batch.carry_out(due, active, &Writable::ByCaller);
    for text in open {
        if text.close().is_err() {
            batch.report.add_unsealed();
        }
    }
}

impl Batch<'_> {
    /// Returns a sled that has to change. Counts or refuses the others.
    fn due<'a>(&mut self, sled: &'a SledSite, active: bool) -> Option<Due<'a>> {
        let forms = sled.forms()?;
        match sled.head(forms, self.loaded) {
            Ok(head) if (head == Head::Active) == active => {
                self.report.add_unchanged(1);
                None
            }
            Ok(head) => Some(Due { sled, forms, head }),
            Err(found) => {
                self.refuse_foreign(sled, forms, if active { Head::Latent } else { Head::Active }, found);
                None
            }
        }
    }

    fn refuse(&mut self, sled: &SledSite, reason: RefusalReason) {
        self.report.refuse(Refusal::new(SiteAddr(sled.at), reason));
    }

    fn refuse_foreign(&mut self, sled: &SledSite, forms: &Forms, own: Head, found: [u8; SITE_LEN]) {
        let expected = forms.expected(own, found);
        self.refuse(sled, RefusalReason::Foreign { expected, found });
    }

    /// Opens the pages of sleds. Refuses those whose pages can't be opened.
    fn open<'a, T>(
        &mut self,
        due: &[Due<'a>],
        open: impl Fn(Range<usize>) -> Result<T, TextError>,
    ) -> (Vec<T>, Vec<Due<'a>>) {
        let whole = |due: &Due<'_>| pages(due.sled.at..due.forms.end());
        let hull = |run: &[Due<'_>]| {
            run.first().map_or(0, |first| whole(first).start)..run.last().map_or(0, |last| whole(last).end)
        };
        let (mut opened, mut ready) = (Vec::new(), Vec::new());
        for run in due.chunk_by(|one, next| whole(next).start <= whole(one).end) {
            if let Ok(text) = open(hull(run)) {
                opened.push(text);
                ready.extend_from_slice(run);
                continue;
            }
            for due in run.chunk_by(|one, next| whole(one) == whole(next)) {
                match open(hull(due)) {
                    Ok(text) => {
                        opened.push(text);
                        ready.extend_from_slice(due);
                    }
                    Err(error) => {
                        let reason = match error {
                            TextError::Unmapped { .. } | TextError::NotReadable { .. } => {
                                RefusalReason::Unreadable
                            }
                            TextError::Unknown { errno } => RefusalReason::Unknown { errno },
                            error => RefusalReason::Protected { errno: error.errno().unwrap_or_default() },
                        };
                        due.iter().for_each(|due| self.refuse(due.sled, reason.clone()));
                    }
                }
            }
        }
        (opened, ready)
    }

    fn carry_out(&mut self, mut due: Vec<Due<'_>>, active: bool, writable: &Writable) {
        if active {
            self.prepare(&mut due, writable);
        }
        let to = if active { Head::Active } else { Head::Latent };
        let is_switched = self.write(&due, to, writable);
        self.report.add_patched(is_switched.into_iter().filter(|it| *it).count());
    }

    /// Writes what lies behind the heads of sleds that are active for the first time.
    fn prepare(&mut self, due: &mut Vec<Due<'_>>, writable: &Writable) {
        // Long NOPs become jumps over themselves.
        let (first, mut ready): (Vec<_>, Vec<_>) = due.drain(..).partition(|due| due.head == Head::Original);
        if !first.is_empty() {
            let is_written = self.write(&first, Head::Latent, writable);
            synchronize();
            let written = first.iter().zip(is_written).filter(|(_, is_written)| *is_written);
            ready.extend(written.map(|(due, _)| Due { head: Head::Latent, ..*due }));
        }
        let mut is_written = false;
        ready.retain(|due| {
            let Some(rest) = &due.forms.rest else { return true };
            let mut found = rest.original().to_vec();
            read(rest.at, &mut found, self.loaded);
            if found == rest.prepared() {
                return true;
            }
            if found == rest.original() && write_rest(rest, writable) {
                is_written = true;
                return true;
            }
            // Another runtime's, in which threads may be.
            let found = due.sled.found(self.loaded);
            let reason = RefusalReason::Foreign { expected: first_bytes(due, self.loaded), found };
            self.report.refuse(Refusal::new(SiteAddr(due.sled.at), reason));
            false
        });
        if is_written {
            synchronize();
        }
        *due = ready;
    }

    /// Switches heads. Returns for each whether it was switched; refuses the others.
    fn write(&mut self, all: &[Due<'_>], to: Head, writable: &Writable) -> Vec<bool> {
        let mut done = vec![false; all.len()];
        let (mut trapped, mut numbers) = (Vec::new(), HashMap::new());
        for (number, Due { sled, forms, head }) in all.iter().enumerate() {
            let Some(plan) = forms.plan(*head, to) else { continue };
            let Some(write) = plan.whole().filter(|_| !self.is_strict) else {
                trapped.push(plan);
                numbers.insert(plan.addr(), number);
                continue;
            };
            // SAFETY: open text of a loaded object; any state of the sled may be executed.
            done[number] = unsafe { write_word(write) };
            if !done[number] {
                let found = sled.found(self.loaded);
                self.refuse_foreign(sled, forms, *head, found);
            }
        }
        let mut refused = Vec::new();
        let tell = |at: usize, result: Result<(), PatchError>| match (numbers.get(&at).copied(), result) {
            (Some(number), Ok(())) => done[number] = true,
            (_, Ok(())) => {}
            (_, Err(error)) => refused.push(Refusal::new(SiteAddr(at), reason_of(error))),
        };
        // SAFETY: the same; the text is writable in this way.
        unsafe { replace_each(&trapped, writable, tell) };
        refused.into_iter().for_each(|refusal| self.report.refuse(refusal));
        done
    }
}

/// Returns the first bytes that a sled should have, as far as they are not its head's.
fn first_bytes(due: &Due<'_>, loaded: KeptLoaded<'_>) -> [u8; SITE_LEN] {
    let mut bytes = due.sled.found(loaded);
    let rest = due.forms.rest.iter().flat_map(Rest::original);
    bytes.iter_mut().skip(due.forms.head_len()).zip(rest).for_each(|(byte, own)| *byte = *own);
    bytes
}

/// Writes bytes that no thread executes.
fn write_rest(rest: &Rest, writable: &Writable) -> bool {
    if let Writable::Alias(alias) = writable {
        return alias.write(rest.at, rest.prepared()).is_ok();
    }
    // SAFETY: open text of a loaded object, behind a jump or a return.
    rest.plans().all(|plan| plan.whole().is_some_and(|write| unsafe { write_word(write) }))
}
