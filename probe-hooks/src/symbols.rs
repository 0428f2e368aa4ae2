//! Names of functions, from an object's symbols.
//!
//! Cost: shared names are looked for once an object, if a function of it has no debug information.
//! The symbol table is read from the file once more, and each name is demangled.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use cpp_demangle::{DemangleOptions, Symbol};
use object::{Object, ObjectSymbol, SymbolKind};

use crate::file::open;

/// Names, as [`demangled_path`] makes them, that several functions of an object have.
#[derive(Default)]
pub(crate) struct AmbiguousNames(HashSet<String>);

impl AmbiguousNames {
    /// Returns the shared names of a file; `None` if it can't be read.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let cache = open(path)?;
        let file = object::File::parse(&cache).ok()?;
        let functions = |symbol: object::Symbol<'_, '_, _>| {
            let is_one = symbol.kind() == SymbolKind::Text && symbol.is_definition();
            is_one.then(|| Some((symbol.name().ok()?.to_owned(), symbol.address()))).flatten()
        };
        let mut all: Vec<(String, u64)> = file.symbols().filter_map(functions).collect();
        if all.is_empty() {
            all = file.dynamic_symbols().filter_map(functions).collect();
        }
        Some(Self::among(&all))
    }

    fn among(functions: &[(String, u64)]) -> Self {
        let mut by_name: HashMap<String, Vec<(&str, u64)>> = HashMap::new();
        for (symbol, addr) in functions {
            by_name.entry(demangled_path(symbol)).or_default().push((symbol, *addr));
        }
        Self(by_name.into_iter().filter(|(_, owners)| are_several(owners)).map(|(name, _)| name).collect())
    }

    pub(crate) fn contain(&self, name: &str) -> bool {
        self.0.contains(name)
    }
}

/// Returns whether symbols of one name belong to several functions, rather than to the compiler's
/// copies of one function.
fn are_several(owners: &[(&str, u64)]) -> bool {
    owners.iter().enumerate().any(|(at, (symbol, addr))| {
        let others = &owners[at + 1..];
        { others }
            .iter()
            .any(|(other, there)| addr != there && (symbol == other || function(symbol) != function(other)))
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

/// Returns a symbol as a path. C++ names have no parameters, return types and spaces. The suffix of
/// a compiler's own copy of a function (`parse.constprop.0`) is removed.
pub fn demangled_path(symbol: &str) -> String {
    let demangled = Symbol::new(symbol).ok().and_then(|symbol| {
        symbol.demangle_with_options(&DemangleOptions::new().no_params().no_return_type()).ok()
    });
    if let Some(name) = demangled {
        let name = name.split(" [clone").next().unwrap_or_default();
        return with_literals(name.chars().filter(|char| *char != ' ').collect());
    }
    stem(symbol).to_owned()
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
            ("_ZN3geo5StackIiE4pushEi", "geo::Stack<int>::push"),
            ("_ZNSt6vectorIiSaIiEE9push_backERKi", "std::vector<int,std::allocator<int>>::push_back"),
            ("_ZN3geo5shapeIdEET_S1_", "geo::shape<double>"),
            ("_Z4pushi.part.0", "push"),
            ("_ZN5unitsli2_mEe", "units::operator\"\"_m"),
        ] {
            assert_eq!(demangled_path(symbol), path, "{symbol}");
        }
    }

    #[test]
    fn several_functions_may_share_a_name() {
        let ambiguous = |symbols: &[(&str, u64)], name| {
            let symbols: Vec<_> =
                symbols.iter().map(|(symbol, addr)| ((*symbol).to_owned(), *addr)).collect();
            AmbiguousNames::among(&symbols).contain(name)
        };
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
