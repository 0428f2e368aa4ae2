//! The specs that rules have armed. Pure.

use std::collections::BTreeSet;

/// The specs that rules have armed, the rules that hold each of them, and its attachment `A`: it is
/// attached once, for as long as a rule holds it.
#[derive(Debug)]
pub struct RefCountedSpecs<A>(Vec<Armed<A>>);

#[derive(Debug)]
struct Armed<A> {
    spec: String,
    rules: BTreeSet<usize>,
    /// `None` as long as it could not be attached.
    attachment: Option<A>,
}

impl<A> Default for RefCountedSpecs<A> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<A> RefCountedSpecs<A> {
    /// Lets a rule hold a text. [`missing`](Self::missing) has it then, unless another rule holds
    /// it already.
    pub fn hold(&mut self, spec: &str, rule: usize) {
        let known = self.0.iter_mut().find(|it| it.spec == spec);
        let Some(armed) = known else {
            let rules = BTreeSet::from([rule]);
            self.0.push(Armed { spec: spec.to_owned(), rules, attachment: None });
            return;
        };
        armed.rules.insert(rule);
    }

    /// Returns the held texts that are not attached, each with a rule that holds it.
    pub fn missing(&self) -> Vec<(String, usize)> {
        let missing = self.0.iter().filter(|it| it.attachment.is_none());
        missing.filter_map(|it| Some((it.spec.clone(), *it.rules.first()?))).collect()
    }

    /// Notes the attachment of a text. Returns it if nobody holds the text.
    pub fn attached(&mut self, spec: &str, attachment: A) -> Option<A> {
        match self.0.iter_mut().find(|it| it.spec == spec) {
            Some(armed) => armed.attachment.replace(attachment),
            None => Some(attachment),
        }
    }

    /// Lets a rule hold nothing any more. Returns the texts that no rule holds now, and their
    /// attachments, to be detached.
    pub fn release(&mut self, rule: usize) -> Vec<(String, A)> {
        self.0.iter_mut().for_each(|it| _ = it.rules.remove(&rule));
        self.take(|it| it.rules.is_empty())
    }

    /// Takes a text from all rules that hold it. Returns its attachment, to be detached.
    pub fn disarm(&mut self, spec: &str) -> Option<A> {
        self.take(|it| it.spec == spec).pop().map(|(_, attachment)| attachment)
    }

    /// Forgets all attachments, which have gone. The texts stay armed.
    pub fn lose(&mut self) {
        self.0.iter_mut().for_each(|it| it.attachment = None);
    }

    /// Takes all texts, and the attachments of those that have one.
    pub fn clear(&mut self) -> Vec<(String, A)> {
        self.take(|_| true)
    }

    fn take(&mut self, is_it: impl Fn(&Armed<A>) -> bool) -> Vec<(String, A)> {
        let taken = self.0.extract_if(.., |it| is_it(it));
        taken.filter_map(|it| Some((it.spec, it.attachment?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_detached_with_its_last_holder() {
        let mut held = RefCountedSpecs::default();
        held.hold("a=count", 0);
        assert_eq!(held.missing(), [("a=count".to_owned(), 0)]);
        assert_eq!(held.attached("a=count", 7), None);
        held.hold("a=count", 1);
        assert_eq!(held.missing(), []);
        assert_eq!(held.release(0), []);
        assert_eq!(held.release(0), []);
        assert_eq!(held.release(1), [("a=count".to_owned(), 7)]);
        assert_eq!(held.clear(), []);
    }

    #[test]
    fn a_text_that_is_disarmed_is_held_by_nobody() {
        let mut held = RefCountedSpecs::default();
        held.hold("a=count", 0);
        held.hold("a=count", 1);
        held.attached("a=count", 7);
        assert_eq!(held.disarm("a=count"), Some(7));
        assert_eq!(held.disarm("a=count"), None);
        assert_eq!((held.release(0), held.release(1)), (vec![], vec![]));
    }

    #[test]
    fn attachments_that_are_lost_or_late_are_missing_or_returned() {
        let mut held = RefCountedSpecs::default();
        held.hold("a=count", 0);
        held.attached("a=count", 7);
        held.lose();
        assert_eq!(held.missing(), [("a=count".to_owned(), 0)]);
        held.hold("b=count", 1);
        assert_eq!(held.attached("c=count", 8), Some(8));
        // One that could not be attached has nothing to detach.
        assert_eq!(held.release(0), []);
        assert_eq!(held.attached("b=count", 9), None);
        assert_eq!(held.attached("b=count", 10), Some(9));
        assert_eq!(held.clear(), [("b=count".to_owned(), 10)]);
    }
}
