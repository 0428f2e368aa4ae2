//! The definitions of a file's probes.

use std::collections::HashMap;
use std::sync::Arc;

use crate::definition::{Definition, Kind};
use crate::layout::flag;

/// Adds the definitions of a block. Returns whether the block was read to its end.
pub(super) fn read(block: &[u8], into: &mut HashMap<u32, Arc<Definition>>) -> bool {
    let mut rest = block;
    while !rest.is_empty() {
        let Some(definition) = one(&mut rest) else { return false };
        into.insert(definition.probe, Arc::new(definition));
        // Each is padded to a word; the block begins at one.
        let padding = rest.len() % 8;
        rest = &rest[padding..];
    }
    true
}

fn one(rest: &mut &[u8]) -> Option<Definition> {
    let probe = u32::from_le_bytes(take(rest)?);
    let [kind, flags] = take(rest)?;
    let count = u16::from_le_bytes(take(rest)?);
    let line = u32::from_le_bytes(take(rest)?);
    let (path, file) = (text(rest)?, text(rest)?);
    let fields = (0..count).map(|_| text(rest)).collect::<Option<_>>()?;
    Some(Definition {
        probe,
        kind: Kind::from_number(kind),
        may_skip_exit: flags & flag::FRAME != 0,
        is_future: flags & flag::FUTURE != 0,
        path,
        file,
        line,
        fields,
    })
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(*taken)
}

fn text(rest: &mut &[u8]) -> Option<String> {
    let length = usize::try_from(u32::from_le_bytes(take(rest)?)).ok()?;
    let (text, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(String::from_utf8_lossy(text).into_owned())
}
