//! Attachments' parts in probes: all in one piece of memory, chained by probe, oldest first. Pure.
//!
//! Cost: 32 bytes for each part. No allocation for each: [`Parts::reserve`] makes room for an
//! attachment's. What is removed is used again.

use crate::dispatch::Action;

/// One attachment's part in one probe.
pub(super) struct Part {
    pub(super) attachment: u32,
    pub(super) action: Action,
    /// Switched off, while its attachment goes on elsewhere.
    pub(super) is_off: bool,
    /// Whether hits are counted now, in place of being delivered.
    pub(super) is_counting: bool,
}

impl Part {
    pub(super) fn new(attachment: usize, action: Action) -> Self {
        let attachment = u32::try_from(attachment).expect("fewer than 2^32 attachments");
        Self { attachment, action, is_off: false, is_counting: false }
    }

    pub(super) fn attachment(&self) -> usize {
        self.attachment as usize
    }
}

/// Where a part is: its number and 1; 0 is none.
type Link = u32;

struct Node {
    part: Part,
    next: Link,
}

/// The parts in one probe.
#[derive(Default)]
pub(super) struct Chain {
    first: Link,
}

impl Chain {
    pub(super) fn is_empty(&self) -> bool {
        self.first == 0
    }
}

/// The parts in all probes.
#[derive(Default)]
pub(super) struct Parts {
    nodes: Vec<Node>,
    /// Those that are in no chain.
    free: Chain,
    free_len: usize,
}

impl Parts {
    /// Makes room for so many more.
    pub(super) fn reserve(&mut self, more: usize) {
        self.nodes.reserve(more.saturating_sub(self.free_len));
    }

    /// Those of a chain.
    #[inline]
    pub(super) fn of(&self, chain: &Chain) -> impl Iterator<Item = &Part> + Clone {
        let mut at = chain.first;
        std::iter::from_fn(move || {
            let node = self.node(at)?;
            at = node.next;
            Some(&node.part)
        })
    }

    /// The one part of a chain that has no other.
    #[inline]
    pub(super) fn sole(&self, chain: &Chain) -> Option<&Part> {
        self.node(chain.first).filter(|node| node.next == 0).map(|node| &node.part)
    }

    /// An attachment's part.
    pub(super) fn find(&mut self, chain: &Chain, attachment: usize) -> Option<&mut Part> {
        let mut at = chain.first;
        while self.node(at)?.part.attachment() != attachment {
            at = self.node(at)?.next;
        }
        Some(&mut self.nodes[at as usize - 1].part)
    }

    /// Adds a part, as the newest.
    pub(super) fn add(&mut self, chain: &mut Chain, part: Part) {
        let link = self.place(part);
        let (mut last, mut at) = (0, chain.first);
        while let Some(node) = self.node(at) {
            (last, at) = (at, node.next);
        }
        match last {
            0 => chain.first = link,
            last => self.nodes[last as usize - 1].next = link,
        }
    }

    fn place(&mut self, part: Part) -> Link {
        let node = Node { part, next: 0 };
        let link = self.free.first;
        if link == 0 {
            self.nodes.push(node);
            return Link::try_from(self.nodes.len()).expect("fewer than 2^32 parts");
        }
        let place = &mut self.nodes[link as usize - 1];
        self.free.first = place.next;
        self.free_len -= 1;
        *place = node;
        link
    }

    /// Removes an attachment's part, if there is one.
    pub(super) fn remove(&mut self, chain: &mut Chain, attachment: usize) {
        let (mut before, mut at) = (0, chain.first);
        while let Some(node) = self.node(at) {
            let next = node.next;
            if node.part.attachment() == attachment {
                if before == 0 {
                    chain.first = next;
                } else {
                    self.nodes[before as usize - 1].next = next;
                }
                self.nodes[at as usize - 1].next = self.free.first;
                self.free.first = at;
                self.free_len += 1;
                return;
            }
            (before, at) = (at, next);
        }
    }

    #[inline]
    fn node(&self, link: Link) -> Option<&Node> {
        self.nodes.get((link as usize).wrapping_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn attachments(parts: &Parts, chain: &Chain) -> Vec<usize> {
        parts.of(chain).map(Part::attachment).collect()
    }

    proptest! {
        #[test]
        fn as_lists_of_each_probe(steps in prop::collection::vec((any::<bool>(), 0_usize..3, 0_usize..4), 1..80)) {
            let mut parts = Parts::default();
            let mut chains = [const { Chain { first: 0 } }; 3];
            let mut lists = [const { Vec::<usize>::new() }; 3];
            let mut most = 0;
            for (adds, probe, attachment) in steps {
                let (chain, list) = (&mut chains[probe], &mut lists[probe]);
                let had = list.contains(&attachment);
                prop_assert_eq!(parts.find(chain, attachment).map(|part| part.attachment()), had.then_some(attachment));
                if !adds {
                    parts.remove(chain, attachment);
                    list.retain(|it| *it != attachment);
                } else if !had {
                    parts.add(chain, Part::new(attachment, Action::Wrap));
                    list.push(attachment);
                }
                most = most.max(lists.iter().map(Vec::len).sum());
                for (chain, list) in chains.iter().zip(&lists) {
                    prop_assert_eq!(&attachments(&parts, chain), list);
                    prop_assert_eq!(chain.is_empty(), list.is_empty());
                    let sole = parts.sole(chain).map(Part::attachment);
                    prop_assert_eq!(sole, list.first().copied().filter(|_| list.len() == 1));
                }
                prop_assert_eq!(parts.nodes.len(), most, "what is removed is used again");
            }
        }
    }
}
