//! Parts of paths.

/// Returns a path's last two segments: `net::handle` of `app::net::handle`.
#[cfg(feature = "perfetto")]
pub(super) fn short_path(path: &str) -> &str {
    let (mut last, mut before, mut depth, mut skip) = (0, 0, 0_usize, false);
    for (index, byte) in path.bytes().enumerate() {
        match byte {
            b'<' | b'(' | b'[' | b'{' => depth += 1,
            b'>' | b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b':' if depth == 0 && !skip && path[index..].starts_with("::") => {
                (before, last) = (last, index + 2);
                skip = true;
                continue;
            }
            _ => {}
        }
        skip = false;
    }
    // A path of two segments has no earlier one: then both positions say where the last begins.
    if last == 0 { path } else { &path[before..] }
}

/// Returns the crate of a path: `app` of `app::net::handle`, and of `<app::A as B>::c`.
pub(super) fn crate_name(path: &str) -> &str {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let path = path.trim_start_matches(|c| !is_name(c));
    let end = path.find(|c| !is_name(c)).unwrap_or(path.len());
    if end == 0 { "probe" } else { &path[..end] }
}

#[cfg(test)]
mod tests {
    #[cfg(feature = "perfetto")]
    #[test]
    fn short_names_have_two_segments() {
        use super::short_path;
        assert_eq!(short_path("app::net::handle"), "net::handle");
        assert_eq!(short_path("net::handle"), "net::handle");
        assert_eq!(short_path("handle"), "handle");
        assert_eq!(short_path("<app::A as b::B<c::C>>::run"), "<app::A as b::B<c::C>>::run");
        assert_eq!(short_path("app::<app::A as b::B>::run"), "<app::A as b::B>::run");
        assert_eq!(short_path("app::größe::∂"), "größe::∂");
        assert_eq!(short_path("a::::b"), "::b");
        assert_eq!(short_path(""), "");
    }

    #[test]
    fn a_path_begins_with_its_crate() {
        use super::crate_name;
        assert_eq!(crate_name("app::net::handle"), "app");
        assert_eq!(crate_name("<&mut app::A as b::B>::run"), "mut");
        assert_eq!(crate_name("main"), "main");
        assert_eq!(crate_name("::"), "probe");
    }
}
