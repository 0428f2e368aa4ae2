//! The name of a USDT probe, from a probe's path and kind. Pure, and known at compile time.
//!
//! The provider is the crate, and the name is the rest of the path. Tools take letters, digits and
//! `_` only, so each other byte becomes `_`: `::` becomes `__`. The kind follows, unless the probe
//! is a point:
//!
//! | path and kind | USDT probe |
//! |---|---|
//! | `shop::orders::priced`, point | `shop:orders__priced` |
//! | `shop::orders::pay`, entry | `shop:orders__pay__entry` |

use core::fmt;

use super::Kind;

/// Bytes of the longest name: the provider, the name, and a NUL behind each.
const ROOM: usize = 256;
/// Words of that many bytes.
pub const WORDS: usize = ROOM / 8;

/// Provider and name of a USDT probe, as a note has them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct UsdtName {
    /// The provider and the name, each ended by a NUL.
    text: [u8; ROOM],
    provider_len: usize,
    len: usize,
}

impl UsdtName {
    /// Returns the name for a probe of this path and kind; `None` if the path has no crate, or is
    /// too long.
    pub const fn of(path: &str, kind: Kind) -> Option<Self> {
        let path = path.as_bytes();
        let mut it = Self { text: [0; ROOM], provider_len: 0, len: 0 };
        while it.len + 1 < path.len() && !(path[it.len] == b':' && path[it.len + 1] == b':') {
            if !it.push(path[it.len]) {
                return None;
            }
        }
        it.provider_len = it.len;
        let name = it.len + 2;
        if it.len == 0 || name >= path.len() || !it.end() || !it.push_all(path, name) {
            return None;
        }
        let suffixed = match kind {
            Kind::Point => true,
            kind => it.push_all(b"__", 0) && it.push_all(kind.name().as_bytes(), 0),
        };
        if suffixed && it.end() { Some(it) } else { None }
    }

    /// Returns the name, at compile time.
    ///
    /// # Panics
    /// If there is none: then the compiler shows this message, once for a function.
    pub const fn new(path: &str, kind: Kind) -> Self {
        match (Self::of(path, kind), kind) {
            (Some(name), _) => name,
            // The entry's name is longer, so that the compiler has shown the message for it.
            (None, Kind::Exit) => Self { text: [0; ROOM], provider_len: 0, len: 0 },
            (None, _) => {
                panic!(
                    "a USDT probe's path and its kind (`__entry`) have at most 256 bytes together: \
                     shorten the module's path or the name"
                )
            }
        }
    }

    const fn push_all(&mut self, bytes: &[u8], from: usize) -> bool {
        let mut at = from;
        while at < bytes.len() {
            if !self.push(bytes[at]) {
                return false;
            }
            at += 1;
        }
        true
    }

    const fn push(&mut self, byte: u8) -> bool {
        self.append(if byte.is_ascii_alphanumeric() { byte } else { b'_' })
    }

    const fn end(&mut self) -> bool {
        self.append(0)
    }

    const fn append(&mut self, byte: u8) -> bool {
        if self.len == ROOM {
            return false;
        }
        self.text[self.len] = byte;
        self.len += 1;
        true
    }

    /// Returns the provider: the crate.
    pub fn provider(&self) -> &str {
        self.part(0, self.provider_len)
    }

    /// Returns the probe's name.
    pub fn name(&self) -> &str {
        self.part(self.provider_len + 1, self.len - 1)
    }

    fn part(&self, from: usize, to: usize) -> &str {
        // `push` has made ASCII of all.
        self.text.get(from..to).and_then(|bytes| str::from_utf8(bytes).ok()).unwrap_or_default()
    }

    /// Returns the bytes of the note's two texts.
    pub const fn text_len(&self) -> usize {
        self.len
    }

    /// Returns `size` of these bytes, from `at` on, as a number; zero behind the end.
    pub const fn number(&self, at: usize, size: usize) -> u64 {
        let mut number = 0;
        let mut byte = 0;
        while byte < size && at + byte < self.len {
            number |= (self.text[at + byte] as u64) << (8 * byte);
            byte += 1;
        }
        number
    }
}

/// As tools write it: `provider:name`.
impl fmt::Display for UsdtName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.provider(), self.name())
    }
}

impl fmt::Debug for UsdtName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use std::string::{String, ToString};
    use std::vec::Vec;

    use super::*;

    fn shown(path: &str, kind: Kind) -> Option<String> {
        UsdtName::of(path, kind).map(|it| it.to_string())
    }

    #[test]
    fn paths_become_names() {
        for (path, kind, name) in [
            ("shop::priced", Kind::Point, "shop:priced"),
            ("shop::orders::pay", Kind::Entry, "shop:orders__pay__entry"),
            ("a::b::Vec::push", Kind::Exit, "a:b__Vec__push__exit"),
            ("a::re-name.d", Kind::Suspend, "a:re_name_d__suspend"),
            ("ä::ö", Kind::Point, "__:__"),
        ] {
            assert_eq!(shown(path, kind).as_deref(), Some(name), "{path}");
        }
    }

    #[test]
    fn paths_without_a_name_have_none() {
        for path in ["", "a", "a::", "::a", ":"] {
            assert_eq!(shown(path, Kind::Point), None, "{path}");
        }
    }

    #[test]
    fn the_longest_name_fits() {
        let path = |len: usize| ["a::", &"b".repeat(len)].concat();
        assert_eq!(shown(&path(253), Kind::Point).map(|it| it.len()), Some(255));
        assert_eq!(shown(&path(254), Kind::Point), None);
        assert_eq!(shown(&path(246), Kind::Entry).map(|it| it.len()), Some(255));
        assert_eq!(shown(&path(247), Kind::Entry), None);
        assert_eq!(shown(&"a".repeat(300), Kind::Point), None);
    }

    /// The pieces that the asm writes are the text.
    #[test]
    fn numbers_are_the_text() {
        for len in 1..20 {
            let name = UsdtName::new(&["a::", &"b".repeat(len)].concat(), Kind::Point);
            let (mut bytes, mut at) = (Vec::new(), 0);
            for size in [4, 2, 1] {
                if name.text_len() & size != 0 {
                    bytes.extend_from_slice(&name.number(at, size).to_le_bytes()[..size]);
                    at += size;
                }
            }
            (0..name.text_len() / 8)
                .for_each(|word| bytes.extend(name.number(at + word * 8, 8).to_le_bytes()));
            assert_eq!(bytes, ["a\0", &"b".repeat(len), "\0"].concat().as_bytes());
        }
    }
}
