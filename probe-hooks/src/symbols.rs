//! Names of functions, from an object's symbols.
//!
//! Cost: shared names are looked for once an object, if a function of it has no debug information.
//! The symbol table is read from the file once more, and each name is demangled.

use std::cmp::Reverse;
use std::collections::hash_map::DefaultHasher;
use std::collections::{HashMap, HashSet};
use std::fmt::{self, Write};
use std::hash::{Hash, Hasher};
use std::path::Path;

use cpp_demangle::{DemangleOptions, Symbol};
use object::{Object, ObjectSymbol, SymbolKind};

use crate::file::open;

/// Bytes of the longest symbol that is read, and of the longest name that is made of one. A few
/// bytes of a symbol may stand for any number.
pub(crate) const MAX_NAME_LEN: usize = 1 << 15;

/// Hashes of names, as [`demangled_path`] makes them, that several functions of an object have.
#[derive(Default)]
pub(crate) struct AmbiguousNames(HashSet<u64>);

impl AmbiguousNames {
    /// Returns the shared names of a file; `None` if it can't be read.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let cache = open(path)?;
        let file = object::File::parse(&cache).ok()?;
        let mut all: Vec<(&str, u64)> = file.symbols().filter_map(|it| named(&it)).collect();
        if all.is_empty() {
            all = file.dynamic_symbols().filter_map(|it| named(&it)).collect();
        }
        Some(Self::among(&all))
    }

    fn among(functions: &[(&str, u64)]) -> Self {
        let mut by_name: HashMap<u64, Vec<(&str, u64)>> = HashMap::new();
        for (symbol, addr) in functions {
            by_name.entry(hash(&demangled_path(symbol))).or_default().push((symbol, *addr));
        }
        Self(by_name.into_iter().filter_map(|(name, owners)| are_several(owners).then_some(name)).collect())
    }

    pub(crate) fn contain(&self, name: &str) -> bool {
        self.0.contains(&hash(name))
    }
}

/// Returns for each of these addresses in a file whether it is in a function with a global symbol,
/// and in no other function.
pub(crate) fn are_in_global_functions(path: &Path, addrs: &[u64]) -> Vec<bool> {
    let mut found = vec![None; addrs.len()];
    let mut order: Vec<usize> = (0..addrs.len()).collect();
    order.sort_unstable_by_key(|at| addrs[*at]);
    let mut read = || {
        let cache = open(path)?;
        let file = object::File::parse(&cache).ok()?;
        for symbol in file.symbols().chain(file.dynamic_symbols()) {
            if symbol.kind() != SymbolKind::Text || !symbol.is_definition() {
                continue;
            }
            let (start, end) = (symbol.address(), symbol.address().saturating_add(symbol.size()));
            let first = order.partition_point(|at| addrs[*at] < start);
            for at in order[first..].iter().take_while(|at| addrs[**at] < end) {
                let is_global = symbol.is_global() || symbol.is_weak();
                found[*at] = match found[*at] {
                    None => Some((start, is_global, true)),
                    Some((other, was_global, is_one)) => {
                        Some((start, is_global || was_global, is_one && other == start))
                    }
                };
            }
        }
        Some(())
    };
    let _ = read();
    found.into_iter().map(|it| it.is_some_and(|(_, is_global, is_one)| is_global && is_one)).collect()
}

/// Returns the paths of the functions around these addresses in a file; `None` where no function's
/// symbol has the address within its size. Of several names of one function, it is the global one
/// with the fewest underscores before it.
pub(crate) fn functions_around(path: &Path, addrs: &[u64]) -> Vec<Option<String>> {
    let mut order: Vec<usize> = (0..addrs.len()).collect();
    order.sort_unstable_by_key(|at| addrs[*at]);
    let mut found = vec![None; addrs.len()];
    let mut read = || {
        let cache = open(path)?;
        let file = object::File::parse(&cache).ok()?;
        for symbol in file.symbols().chain(file.dynamic_symbols()) {
            let end = symbol.address().saturating_add(symbol.size());
            let first = order.partition_point(|at| addrs[*at] < symbol.address());
            // Most symbols hold none of the addresses, and names take the most time.
            if order.get(first).is_none_or(|at| addrs[*at] >= end) {
                continue;
            }
            let Some((name, start)) = named(&symbol) else { continue };
            // Linkers name the version of an import: `main@@LIB_2.34`.
            let name = name.split_once('@').map_or(name, |(name, _)| name);
            for at in order[first..].iter().take_while(|at| addrs[**at] < end) {
                let underscores = name.len() - name.trim_start_matches('_').len();
                let rank = (Reverse(start), symbol.is_local(), underscores, name);
                let known: &mut Option<(_, _, _, String)> = &mut found[*at];
                if known.as_ref().is_none_or(|known| rank < (known.0, known.1, known.2, &known.3)) {
                    *known = Some((rank.0, rank.1, rank.2, name.to_owned()));
                }
            }
        }
        Some(())
    };
    let _ = read();
    found.into_iter().map(|it| it.map(|(.., name)| demangled_path(&name))).collect()
}

/// Returns the symbol and the address of a function.
fn named<'data>(symbol: &impl ObjectSymbol<'data>) -> Option<(&'data str, u64)> {
    let is_function = symbol.kind() == SymbolKind::Text && symbol.is_definition();
    is_function.then(|| Some((symbol.name().ok()?, symbol.address())))?
}

fn hash(name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}

/// Returns whether symbols of one name belong to several functions, rather than to the compiler's
/// copies of one function.
fn are_several(mut owners: Vec<(&str, u64)>) -> bool {
    /// Copies of one function.
    const MAX_COPIES: usize = 256;
    owners.sort_unstable();
    owners.dedup();
    owners.len() > MAX_COPIES
        || owners.iter().enumerate().any(|(at, (symbol, addr))| {
            let others = &owners[at + 1..];
            { others }.iter().any(|(other, there)| {
                addr != there && (symbol == other || function(symbol) != function(other))
            })
        })
}

/// Returns the common part of the compiler's copies of a function: the symbol without the suffix of
/// a clone. The variants of one constructor have the same, and so do those of a destructor.
fn function(symbol: &str) -> String {
    let mut function = stem(symbol).to_owned();
    for variant in ["C1E", "C2E", "C3E", "D0E", "D1E", "D2E"] {
        function = function.replace(variant, &format!("{}_E", &variant[..1]));
    }
    function
}

/// Returns a symbol without the suffix of a compiler's own copy of a function
/// (`parse.constprop.0`).
pub(crate) fn stem(symbol: &str) -> &str {
    let suffix = symbol.char_indices().skip(1).find(|(_, char)| *char == '.');
    &symbol[..suffix.map_or(symbol.len(), |(at, _)| at)]
}

/// Returns a symbol as a path. Names of Rust have no hash. C++ names have no parameters, return
/// types and spaces. The suffix of a compiler's own copy of a function (`parse.constprop.0`) is
/// removed.
pub fn demangled_path(symbol: &str) -> String {
    let symbol = &symbol[..floor_char_boundary(symbol, MAX_NAME_LEN)];
    if let Ok(rust) = rustc_demangle::try_demangle(symbol) {
        let mut name = BoundedName(String::new());
        return write!(name, "{rust:#}").map_or_else(|_| stem(symbol).to_owned(), |()| name.0);
    }
    let demangled = |symbol: Symbol<&str>| {
        let mut name = BoundedName(String::new());
        let options = DemangleOptions::new().no_params().no_return_type();
        symbol.structured_demangle(&mut name, &options).ok().map(|()| name.0)
    };
    // `a` is a type's name to the demangler.
    let is_mangled = symbol.starts_with('_') && symbol.trim_start_matches('_').starts_with('Z');
    if let Some(name) = Symbol::new(symbol).ok().filter(|_| is_mangled).and_then(demangled) {
        let name = name.split(" [clone").next().unwrap_or_default();
        // A reference qualifier stays when the parameters go.
        let name = name.strip_suffix(" &&").or_else(|| name.strip_suffix(" &")).unwrap_or(name);
        return with_literals(name.chars().filter(|char| *char != ' ').collect());
    }
    stem(symbol).to_owned()
}

/// A name that is refused once it is too long.
struct BoundedName(String);

impl Write for BoundedName {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > MAX_NAME_LEN {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

/// Returns the last place for a cut that is in no character, up to a limit.
pub(crate) fn floor_char_boundary(text: &str, limit: usize) -> usize {
    (0..=text.len().min(limit)).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// Restores `operator""_k`, which the demangler writes as `operator_k::operator""`.
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
    fn symbols_are_paths() {
        for (symbol, path) in [
            ("sqlite3VdbeExec", "sqlite3VdbeExec"),
            ("parse.constprop.0", "parse"),
            (".hidden", ".hidden"),
            ("a", "a"),
            ("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE", "core::fmt::Write::write_fmt"),
            ("_RNvNtCs1234_7mycrate3foo3bar", "mycrate::foo::bar"),
            ("_ZN3geo5StackIiE4pushEi", "geo::Stack<int>::push"),
            ("_ZNSt6vectorIiSaIiEE9push_backERKi", "std::vector<int,std::allocator<int>>::push_back"),
            ("_ZN3geo5shapeIdEET_S1_", "geo::shape<double>"),
            ("_Z4pushi.part.0", "push"),
            ("_ZNK3geo5Stack4sizeEv", "geo::Stack::size"),
            ("_ZNVKR3geo5Stack4sizeEv", "geo::Stack::size"),
            ("_ZNO3geo5Stack4sizeEv", "geo::Stack::size"),
            ("_ZN3geo5StackcvRiEv", "geo::Stack::operatorint&"),
            ("_ZN5unitsli2_mEe", "units::operator\"\"_m"),
        ] {
            assert_eq!(demangled_path(symbol), path, "{symbol}");
        }
    }

    #[test]
    fn a_symbol_that_doubles_its_name_again_and_again_stays_one() {
        // Each argument has the one before twice: `a<>`, `a<a<>,a<>>`, …
        let twice = |inner: String, number: usize| {
            format!("1aI{inner}S{}E", if number == 0 { "_".to_owned() } else { format!("{}_", number - 1) })
        };
        let symbol = (0..60).fold("i".to_owned(), twice);
        let name = demangled_path(&format!("_Z{symbol}"));
        assert!(name.len() <= MAX_NAME_LEN, "{}", name.len());
        assert_eq!(demangled_path(&"x".repeat(100_000)).len(), MAX_NAME_LEN);
    }

    #[test]
    fn several_functions_may_share_a_name() {
        let ambiguous = |symbols: &[(&str, u64)], name| AmbiguousNames::among(symbols).contain(name);
        assert!(ambiguous(&[("init", 1), ("other", 2), ("init", 3)], "init"));
        assert!(!ambiguous(&[("init", 1), ("other", 2), ("init", 3)], "other"));
        assert!(ambiguous(&[("init", 1), ("init.part.0", 2), ("init", 3)], "init"));
        // In two tables, or a copy that the compiler has made.
        assert!(!ambiguous(&[("init", 1), ("init", 1)], "init"));
        assert!(!ambiguous(&[("init", 1), ("init.constprop.0", 2)], "init"));
        // Overloads; and the variants of one constructor.
        assert!(ambiguous(&[("_Z4pushi", 1), ("_Z4pushd", 2)], "push"));
        assert!(!ambiguous(&[("_ZN1AC1Ev", 1), ("_ZN1AC2Ev", 2)], "A::A"));
        assert!(ambiguous(&[("_ZN1AC1Ev", 1), ("_ZN1AC1Ei", 2)], "A::A"));
    }
}
