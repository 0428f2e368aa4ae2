//! Open pages, with the number of their openers, and their former rights. Pure: addresses in,
//! addresses out.
//!
//! | a page | in the map | openers |
//! |---|---|---|
//! | is as it was | no | – |
//! | is open | yes | 1 or more |
//! | could not be restored, and is still writable, or may be | yes | 0 |
//!
//! A page that no opener holds is never assumed to be writable. A new opener makes it writable
//! again.
//!
//! An opener gets the present [`Epoch`], and closes with it. Forgetting pages ends an epoch. Pages
//! that are opened there later belong to a later epoch, so openers of the forgotten pages don't
//! close them.

use std::ops::Range;

use crate::os::maps::Rights;

/// Adjacent pages of one kind.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Run {
    pages: Range<usize>,
    openers: usize,
    former: Rights,
    since: Epoch,
}

impl Run {
    fn continues(&self, before: &Self) -> bool {
        let kind = |run: &Self| (run.openers, run.former, run.since);
        before.pages.end == self.pages.start && kind(before) == kind(self)
    }
}

/// The time between two forgettings.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub(super) struct Epoch(u64);

pub(super) type PageRights = (Range<usize>, Rights);

/// The map: runs in ascending order, none of them empty, no two overlapping.
#[derive(Debug)]
pub(super) struct Runs {
    runs: Vec<Run>,
    epoch: Epoch,
}

impl Runs {
    pub(super) const fn new() -> Self {
        Self { runs: Vec::new(), epoch: Epoch(0) }
    }

    /// Returns whether the map knows none of the pages.
    pub(super) fn is_clear(&self, pages: &Range<usize>) -> bool {
        let first = self.runs.partition_point(|run| run.pages.end <= pages.start);
        self.runs.get(first).is_none_or(|run| pages.end <= run.pages.start)
    }

    /// Returns whether all of `pages` are held open, and were not writable before.
    pub(super) fn are_held(&self, pages: &Range<usize>) -> bool {
        let first = self.runs.partition_point(|run| run.pages.end <= pages.start);
        let mut at = pages.start;
        for run in &self.runs[first..] {
            if at >= pages.end || run.pages.start > at || run.openers == 0 || run.former.write {
                break;
            }
            at = run.pages.end;
        }
        at >= pages.end
    }

    /// Returns whether `more` runs can be added without allocating.
    pub(super) fn has_room(&self, more: usize) -> bool {
        self.runs.capacity() - self.runs.len() >= more
    }

    pub(super) fn make_room(&mut self, more: usize) {
        self.runs.reserve(more);
    }

    /// Returns the parts of `pages` that the map does not know.
    pub(super) fn gaps(&self, pages: &Range<usize>) -> Vec<Range<usize>> {
        let (mut gaps, mut at) = (Vec::new(), pages.start);
        let first = self.runs.partition_point(|run| run.pages.end <= pages.start);
        for run in self.runs[first..].iter().take_while(|run| run.pages.start < pages.end) {
            if at < run.pages.start {
                gaps.push(at..run.pages.start);
            }
            at = run.pages.end;
        }
        if at < pages.end {
            gaps.push(at..pages.end);
        }
        gaps
    }

    /// Returns the parts of `pages` that were writable already when they were first opened.
    pub(super) fn found_writable(&self, pages: &Range<usize>) -> Vec<Range<usize>> {
        let first = self.runs.partition_point(|run| run.pages.end <= pages.start);
        let within = self.runs[first..].iter().take_while(|run| run.pages.start < pages.end);
        let clamp = |run: &Run| run.pages.start.max(pages.start)..run.pages.end.min(pages.end);
        within.filter(|run| run.former.write).map(clamp).collect()
    }

    /// Returns the parts of `pages` that could not be restored, with their former rights.
    pub(super) fn left(&self, pages: &Range<usize>) -> Vec<PageRights> {
        let first = self.runs.partition_point(|run| run.pages.end <= pages.start);
        let within = self.runs[first..].iter().take_while(|run| run.pages.start < pages.end);
        let clamp = |run: &Run| run.pages.start.max(pages.start)..run.pages.end.min(pages.end);
        within.filter(|run| run.openers == 0).map(|run| (clamp(run), run.former)).collect()
    }

    /// Corrects the former rights of pages, as far as the map knows them.
    pub(super) fn set_former(&mut self, pages: &Range<usize>, former: Rights) {
        let (first, last) = self.cut_out(pages);
        for run in &mut self.runs[first..last] {
            run.former = former;
        }
        self.join(first, last);
    }

    /// Counts one more opener of all of `pages`. `found` has the former rights of all gaps, in
    /// ascending order.
    pub(super) fn open(&mut self, pages: &Range<usize>, found: &[PageRights]) -> Epoch {
        for (gap, former) in found {
            self.insert(gap.clone(), *former);
        }
        let (first, last) = self.cut_out(pages);
        for run in &mut self.runs[first..last] {
            run.openers += 1;
        }
        self.join(first, last);
        self.epoch
    }

    /// Counts out one opener, which opened `pages` in `epoch`. Returns the pages that no opener
    /// holds now, with their former rights, and forgets them.
    pub(super) fn close(&mut self, pages: &Range<usize>, epoch: Epoch) -> Vec<PageRights> {
        let (first, mut last) = self.cut_out(pages);
        let mut left = Vec::new();
        for at in (first..last).rev() {
            let run = &mut self.runs[at];
            // Skips pages that were opened after this opener's pages were forgotten.
            if run.since > epoch {
                continue;
            }
            run.openers = run.openers.saturating_sub(1);
            if run.openers == 0 {
                let run = self.runs.remove(at);
                left.push((run.pages, run.former));
                last -= 1;
            }
        }
        left.reverse();
        self.join(first, last);
        left
    }

    /// Remembers pages that are still writable without a guard, or may be. The map must not know
    /// them yet.
    pub(super) fn insert(&mut self, pages: Range<usize>, former: Rights) {
        let at = self.runs.partition_point(|run| run.pages.start < pages.start);
        self.runs.insert(at, Run { pages, openers: 0, former, since: self.epoch });
    }

    /// Forgets pages, even if openers hold them.
    pub(super) fn forget(&mut self, pages: &Range<usize>) {
        let (first, last) = self.cut_out(pages);
        if first != last {
            self.runs.drain(first..last);
            self.epoch.0 += 1;
        }
    }

    /// Returns all pages that the map knows, with their former rights.
    pub(super) fn parts(&self) -> Vec<PageRights> {
        self.runs.iter().map(|run| (run.pages.clone(), run.former)).collect()
    }

    /// Returns the number of bytes that are still writable without a guard, or may be.
    pub(super) fn unrestored(&self) -> usize {
        self.runs.iter().filter(|run| run.openers == 0).map(|run| run.pages.len()).sum()
    }

    /// Splits runs where `pages` begin and end. Returns the runs within.
    fn cut_out(&mut self, pages: &Range<usize>) -> (usize, usize) {
        self.cut(pages.start);
        self.cut(pages.end);
        let first = self.runs.partition_point(|run| run.pages.start < pages.start);
        let last = self.runs.partition_point(|run| run.pages.start < pages.end);
        (first, last.max(first))
    }

    fn cut(&mut self, addr: usize) {
        let at = self.runs.partition_point(|run| run.pages.end <= addr);
        if let Some(run) = self.runs.get_mut(at).filter(|run| run.pages.start < addr) {
            let rest = Run { pages: addr..run.pages.end, ..run.clone() };
            run.pages.end = addr;
            self.runs.insert(at + 1, rest);
        }
    }

    /// Joins runs of one kind from the neighbour before `first` to the one after `last`.
    fn join(&mut self, first: usize, last: usize) {
        for at in (first..=last).rev() {
            if at > 0 && self.runs.get(at).is_some_and(|run| run.continues(&self.runs[at - 1])) {
                self.runs[at - 1].pages.end = self.runs.remove(at).pages.end;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PAGES: usize = 24;
    const RX: Rights = Rights::TEXT;
    const R: Rights = Rights { read: true, write: false, execute: false };
    const RW: Rights = Rights { read: true, write: true, execute: false };

    #[test]
    fn nested_openers_restore_at_the_last() {
        let mut runs = Runs::new();
        let outer = runs.open(&(0..10), &[(0..4, RX), (4..10, R)]);
        assert_eq!(runs.gaps(&(2..12)), [10..12]);
        let inner = runs.open(&(3..12), &[(10..12, RW)]);
        assert_eq!(runs.close(&(0..10), outer), [(0..3, RX)]);
        assert_eq!(runs.close(&(3..12), inner), [(3..4, RX), (4..10, R), (10..12, RW)]);
        assert_eq!(runs.runs, []);
    }

    #[test]
    fn closing_inside_leaves_one_run() {
        let mut runs = Runs::new();
        let all = runs.open(&(0..10), &[(0..10, RX)]);
        for at in 0..10 {
            let one = runs.open(&(at..at + 1), &[]);
            assert_eq!(runs.close(&(at..at + 1), one), []);
        }
        assert_eq!(runs.runs.len(), 1);
        assert_eq!(runs.close(&(0..10), all), [(0..10, RX)]);
    }

    #[test]
    fn what_is_opened_after_a_forgetting_is_not_closed_by_those_before() {
        let mut runs = Runs::new();
        let old = runs.open(&(0..4), &[(0..4, RX)]);
        runs.forget(&(1..3));
        let new = runs.open(&(0..4), &[(1..3, R)]);
        assert_eq!(runs.close(&(0..4), old), []);
        assert_eq!(runs.close(&(0..4), new), [(0..1, RX), (1..3, R), (3..4, RX)]);
    }

    #[test]
    fn what_could_not_be_restored_is_restored_by_the_next() {
        let mut runs = Runs::new();
        runs.insert(2..4, RX);
        assert_eq!(runs.unrestored(), 2);
        assert_eq!(runs.gaps(&(0..4)), [0..2]);
        assert_eq!((runs.left(&(0..3)), runs.left(&(4..9))), (vec![(2..3, RX)], vec![]));
        let epoch = runs.open(&(0..4), &[(0..2, R)]);
        assert_eq!((runs.unrestored(), runs.left(&(0..4))), (0, vec![]));
        assert_eq!(runs.close(&(0..4), epoch), [(0..2, R), (2..4, RX)]);
    }

    #[test]
    fn what_was_writable_may_turn_out_to_be_sealed() {
        let mut runs = Runs::new();
        let epoch = runs.open(&(0..8), &[(0..2, RX), (2..6, RW), (6..8, RX)]);
        assert_eq!(runs.found_writable(&(0..8)), [2..6]);
        assert_eq!(runs.found_writable(&(3..5)), [3..5]);
        assert!(runs.found_writable(&(6..9)).is_empty());
        runs.set_former(&(2..4), RX);
        assert_eq!(runs.found_writable(&(0..8)), [4..6]);
        assert_eq!(runs.close(&(0..8), epoch), [(0..4, RX), (4..6, RW), (6..8, RX)]);
    }

    #[derive(Clone, Debug)]
    enum Action {
        Open(Range<usize>),
        Close(usize),
        Forget(Range<usize>),
        Fail(usize),
    }

    fn range() -> impl Strategy<Value = Range<usize>> {
        (0..PAGES, 1..PAGES).prop_map(|(start, len)| start..(start + len).min(PAGES))
    }

    fn action() -> impl Strategy<Value = Action> {
        prop_oneof![
            4 => range().prop_map(Action::Open),
            4 => any::<usize>().prop_map(Action::Close),
            1 => range().prop_map(Action::Forget),
            1 => any::<usize>().prop_map(Action::Fail),
        ]
    }

    /// The model of one page: its holders, and its former rights if the map knows it.
    #[derive(Clone, Default)]
    struct Page {
        holders: Vec<usize>,
        former: Option<Rights>,
    }

    proptest! {
        /// Opens, closes and forgets pages in any order. Each page gets its former rights back when
        /// its last opener goes, and at no other time.
        #[test]
        fn agrees_with_a_model_of_single_pages(
            rights in proptest::collection::vec(prop_oneof![Just(RX), Just(R), Just(RW)], PAGES),
            actions in proptest::collection::vec(action(), 1..60),
        ) {
            let mut runs = Runs::new();
            let mut model = vec![Page::default(); PAGES];
            let mut guards: Vec<(usize, Range<usize>, Epoch)> = Vec::new();
            for (id, action) in actions.into_iter().enumerate() {
                match action {
                    Action::Open(pages) => {
                        let gaps: Vec<usize> = runs.gaps(&pages).into_iter().flatten().collect();
                        let unknown: Vec<usize> =
                            pages.clone().filter(|at| model[*at].former.is_none()).collect();
                        prop_assert_eq!(&gaps, &unknown);
                        prop_assert_eq!(runs.is_clear(&pages), unknown.len() == pages.len());
                        let found: Vec<_> = gaps.iter().map(|at| (*at..at + 1, rights[*at])).collect();
                        let epoch = runs.open(&pages, &found);
                        for at in pages.clone() {
                            model[at].holders.push(id);
                            model[at].former.get_or_insert(rights[at]);
                        }
                        guards.push((id, pages, epoch));
                    }
                    Action::Close(nth) | Action::Fail(nth) if !guards.is_empty() => {
                        let (id, pages, epoch) = guards.swap_remove(nth % guards.len());
                        let left = runs.close(&pages, epoch);
                        let restored: Vec<_> =
                            left.iter().flat_map(|(pages, former)| pages.clone().map(|at| (at, *former))).collect();
                        let mut wanted = Vec::new();
                        for at in pages {
                            let page = &mut model[at];
                            let Some(holder) = page.holders.iter().position(|holder| *holder == id) else { continue };
                            page.holders.remove(holder);
                            if page.holders.is_empty() {
                                wanted.extend(page.former.take().map(|former| (at, former)));
                            }
                        }
                        prop_assert_eq!(restored, wanted.clone());
                        if matches!(action, Action::Fail(_)) {
                            for (pages, former) in left {
                                runs.insert(pages, former);
                            }
                            for (at, former) in wanted {
                                model[at].former = Some(former);
                            }
                        }
                    }
                    Action::Close(_) | Action::Fail(_) => {}
                    Action::Forget(pages) => {
                        runs.forget(&pages);
                        model[pages].fill_with(Page::default);
                    }
                }
                let known: Vec<_> = runs
                    .runs
                    .iter()
                    .flat_map(|run| run.pages.clone().map(|at| (at, run.openers, run.former)))
                    .collect();
                let wanted: Vec<_> = (model.iter().enumerate())
                    .filter_map(|(at, page)| Some((at, page.holders.len(), page.former?)))
                    .collect();
                prop_assert_eq!(known, wanted);
                let unrestored = model.iter().filter(|page| page.former.is_some() && page.holders.is_empty());
                prop_assert_eq!(runs.unrestored(), unrestored.count());
            }
        }
    }
}
