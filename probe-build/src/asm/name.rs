//! Derives the path of a probe from a symbol.

use cpp_demangle::{DemangleOptions, Symbol};

/// A symbol, split from its suffixes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Name<'a> {
    /// The symbol without suffixes.
    base: &'a str,
    /// The suffixes of a separate function, such as `.part.0`.
    own: String,
}

/// Suffixes of copies for certain arguments, and of renamed functions: their sites belong to the
/// same probe.
const CLONES: [&str; 5] = ["constprop", "isra", "llvm", "lto_priv", "cold"];

/// Returns the function to which the symbol of a part belongs: `f` of `f.cold`, `f.cold.3`,
/// `f.__part.1`, and of `f.eh`, where handlers of exceptions are separate.
pub(super) fn whole_of(symbol: &str) -> Option<&str> {
    if let Some(whole) = symbol.strip_suffix(".cold").or_else(|| symbol.strip_suffix(".eh")) {
        return Some(whole);
    }
    let (rest, number) = symbol.rsplit_once('.')?;
    if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    rest.strip_suffix(".cold").or_else(|| rest.strip_suffix(".__part"))
}

/// Returns the symbol of which this one is a copy, or the symbol itself.
pub(super) fn without_suffixes(symbol: &str) -> &str {
    Name::of(symbol).base
}

/// Returns the path of the probe to which a function's sites belong.
pub(super) fn path(symbol: &str) -> String {
    // `f@@16` is the symbol of a `vectorcall` function.
    let symbol = symbol.split_once("@@").map_or(symbol, |(name, _)| name);
    let Name { base, own } = Name::of(symbol);
    let (mangled, thunk) = match target_of_thunk(base) {
        Some(target) => (format!("_Z{target}"), "{thunk}"),
        None => (base.to_owned(), ""),
    };
    let name = if mangled.starts_with("_Z") { demangled(&mangled) } else { None };
    let mut path = name.unwrap_or_else(|| base.to_owned());
    path.push_str(thunk);
    path.push_str(&own);
    path
}

impl<'a> Name<'a> {
    fn of(symbol: &'a str) -> Self {
        let dot = symbol.char_indices().skip(1).find(|(_, c)| *c == '.').map(|(at, _)| at);
        let Some(mut dot) = dot else { return Self { base: symbol, own: String::new() } };
        let mut start = 0;
        if let Some((coroutine, after)) = frame_of(symbol) {
            (start, dot) = (coroutine, after);
        }
        let mut own = String::new();
        let suffixes = &symbol[dot + 1..];
        let suffixes = if start > 0 { suffixes.trim_start_matches("Frame.") } else { suffixes };
        let mut words = suffixes.split('.').peekable();
        while let Some(word) = words.next() {
            let clone = CLONES.contains(&word);
            if !clone {
                own.push('.');
                own.push_str(word);
            }
            while let Some(number) = words.next_if(|next| next.bytes().all(|byte| byte.is_ascii_digit())) {
                if !clone {
                    own.push('.');
                    own.push_str(number);
                }
            }
        }
        Self { base: &symbol[start..dot.min(symbol.len())], own }
    }
}

/// Parts of a coroutine are named `…<the coroutine's symbol>.Frame.actor` by gcc. Returns start
/// and end of that symbol.
fn frame_of(symbol: &str) -> Option<(usize, usize)> {
    let end = symbol.find(".Frame.")?;
    Some((symbol[..end].rfind("_Z")?, end))
}

/// Returns the encoding of the function that a virtual thunk calls (Itanium C++ ABI, 5.1.4.2).
fn target_of_thunk(symbol: &str) -> Option<&str> {
    let rest = symbol.strip_prefix("_ZT")?;
    match rest.strip_prefix('c') {
        Some(covariant) => after_offset(after_offset(covariant)?),
        None => after_offset(rest),
    }
}

/// Returns the text after a call offset: `h` and a number, or `v` and two, each followed by an
/// underscore.
fn after_offset(text: &str) -> Option<&str> {
    let (numbers, mut rest) = match text.strip_prefix('h') {
        Some(rest) => (1, rest),
        None => (2, text.strip_prefix('v')?),
    };
    for _ in 0..numbers {
        let (number, after) = rest.split_once('_')?;
        let digits = number.strip_prefix('n').unwrap_or(number);
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        rest = after;
    }
    Some(rest)
}

/// Demangles without return type, parameters, qualifiers behind them, and spaces.
fn demangled(symbol: &str) -> Option<String> {
    let options = DemangleOptions::new().no_params().no_return_type();
    let text = Symbol::new(symbol).ok()?.demangle_with_options(&options).ok()?;
    let mut text = text.as_str();
    while let Some(plain) = [" const", " volatile", " &", " &&"].iter().find_map(|it| text.strip_suffix(it)) {
        text = plain;
    }
    let text: String = text.split_whitespace().collect();
    (!text.is_empty()).then(|| with_literals(text))
}

/// Restores `operator""_k`, which the demangler prints as `operator_k::operator""`.
fn with_literals(text: String) -> String {
    const OPERATOR: &str = "operator";
    let Some((name, rest)) = text.split_once("::operator\"\"") else { return text };
    let Some(at) = name.rfind(OPERATOR) else { return text };
    let (scope, suffix) = (&name[..at], &name[at + OPERATOR.len()..]);
    format!("{scope}operator\"\"{suffix}{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        for (symbol, expected) in [
            ("sqlite3VdbeExec", "sqlite3VdbeExec"),
            ("f.constprop.0", "f"),
            ("f.isra.0.constprop.12", "f"),
            ("f.llvm.1234567", "f"),
            ("f.part.0", "f.part.0"),
            ("f.part.0.isra.0", "f.part.0"),
            ("f.isra.0.part.1.cold", "f.part.1"),
            ("f.avx2.0", "f.avx2.0"),
            (".hidden", ".hidden"),
            ("_ZN3geo5StackIiE4pushEi", "geo::Stack<int>::push"),
            ("_ZNSt6vectorIiSaIiEE9push_backERKi", "std::vector<int,std::allocator<int>>::push_back"),
            ("_ZN1BC2Ei", "B::B"),
            ("_ZN1BD0Ev", "B::~B"),
            ("_Z3maxIiET_S0_S0_", "max<int>"),
            ("_ZZ1fiENKUliE_clEi", "f(int)::{lambda(int)#1}::operator()"),
            ("_ZThn16_N1D1gEv", "D::g{thunk}"),
            ("_ZTv0_n24_N1D1gEv", "D::g{thunk}"),
            ("_ZTch0_h16_N1D1gEv", "D::g{thunk}"),
            ("_ZTcv0_n24_v0_n32_N1D1gEv", "D::g{thunk}"),
            ("_ZN12_GLOBAL__N_11fEv", "(anonymousnamespace)::f"),
            ("f@@16", "f"),
            ("_Zli2_ky", "operator\"\"_k"),
            ("_ZN5unitsli2_mEe", "units::operator\"\"_m"),
            ("_ZN1n2goEPZNS_2goEiE16_ZN1n2goEi.Frame.actor", "n::go.actor"),
            ("_ZN1n2goEPZNS_2goEiE16_ZN1n2goEi.Frame.destroy", "n::go.destroy"),
            ("_ZN1n2goEPZNS_2goEiE16_ZN1n2goEi.Frame.actor.cold", "n::go.actor"),
            ("_ZN1n2goEi.resume", "n::go.resume"),
            ("_ZN1n2goEi.cleanup", "n::go.cleanup"),
            ("_ZN1BC2Ei.cold", "B::B"),
            ("_ZN1BC2Ei.part.0", "B::B.part.0"),
        ] {
            assert_eq!(path(symbol), expected, "{symbol}");
        }
    }

    #[test]
    fn cold_parts() {
        assert_eq!(whole_of("f.cold"), Some("f"));
        assert_eq!(whole_of("f.constprop.0.cold"), Some("f.constprop.0"));
        assert_eq!(whole_of("f.cold.17"), Some("f"));
        assert_eq!(whole_of("f.__part.2"), Some("f"));
        assert_eq!(whole_of("f.part.2"), None);
        assert_eq!(whole_of("f"), None);
        assert_eq!(whole_of("f.cold.x"), None);
    }
}
