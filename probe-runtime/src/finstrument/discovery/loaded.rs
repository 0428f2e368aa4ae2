//! The loaded objects. A look-up finds the object of an address in text, and a hash tells it from
//! objects that were loaded at the same place before.
//!
//! Life: an operation that looks at discoveries lists the objects, and lists them again after an
//! object has come or gone.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::ops::Range;

use crate::engine::os::objects::{Frozen, Generation, Object};

/// All loaded objects.
#[derive(Default)]
pub(crate) struct Loaded {
    /// `None` before the first list.
    generation: Option<Generation>,
    objects: Vec<KnownObject>,
    /// The segments of text, ascending, each with the index of its object.
    texts: Vec<(Range<usize>, usize)>,
}

/// An object, with a hash that tells it from others in its place.
pub(super) struct KnownObject {
    pub(super) object: Object,
    pub(super) hash: u64,
}

impl Loaded {
    /// Lists the objects again, if some came or went.
    pub(super) fn renew(&mut self, frozen: &Frozen) {
        let generation = Some(frozen.generation());
        if self.generation == generation {
            return;
        }
        *self = Self::new(frozen.every());
        self.generation = generation;
    }

    fn new(objects: Vec<Object>) -> Self {
        let objects = objects.into_iter().map(|object| KnownObject { hash: hash(&object), object });
        let objects: Vec<_> = objects.collect();
        let mut texts = Vec::new();
        for (number, known) in objects.iter().enumerate() {
            let segments = known.object.segments.iter().filter(|segment| segment.is_text);
            texts.extend(segments.map(|segment| (segment.range.clone(), number)));
        }
        texts.sort_unstable_by_key(|(range, _)| range.start);
        Self { generation: None, objects, texts }
    }

    /// Returns the object whose text holds an address.
    pub(super) fn at(&self, addr: usize) -> Option<&KnownObject> {
        let after = self.texts.partition_point(|(range, _)| range.start <= addr);
        let (range, number) = self.texts.get(after.checked_sub(1)?)?;
        range.contains(&addr).then(|| &self.objects[*number])
    }

    pub(super) fn all(&self) -> &[KnownObject] {
        &self.objects
    }
}

fn hash(object: &Object) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&object.name, object.base).hash(&mut hasher);
    object.segments.iter().for_each(|segment| (&segment.range, segment.is_text).hash(&mut hasher));
    // 0 is no object's.
    hasher.finish().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::os::objects::Segment;

    #[test]
    fn an_address_is_found_in_text_only() {
        let object = |name: &str, start: usize| {
            let segment = Segment::of;
            let segments = vec![segment(start..start + 16, false), segment(start + 16..start + 32, true)];
            Object { name: name.to_owned(), base: start, segments, notes: Vec::new(), is_main: false }
        };
        let loaded = Loaded::new(vec![object("high", 4096), object("low", 64)]);
        let at = |addr| loaded.at(addr).map(|known| known.object.name.as_str());
        let found = [0, 64, 79, 80, 95, 96, 4111, 4112, 4127, 4128].map(at);
        let (low, high) = (Some("low"), Some("high"));
        assert_eq!(found, [None, None, None, low, low, None, None, high, high, None]);
        assert_ne!(loaded.all()[0].hash, loaded.all()[1].hash);
    }
}
