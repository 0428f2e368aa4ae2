//! Reasons why a file was compiled as cc would, without sites.

use std::fmt;

/// Why a file has no sites.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum PlainReason {
    /// The build requested [`Sites::None`](crate::Sites::None).
    Asked,
    /// The program is built without probes: `--cfg probe_off`, or this crate's feature `off`.
    Off,
    /// The program is built with `--cfg probe_portable`: nothing is patched.
    Portable,
    /// Code for the compiler's target is not patched. The text names the target.
    Target(String),
    /// Not C or C++: the file name's extension.
    Language(String),
    /// The compiler is neither gcc nor clang, or does not identify itself. The text names it.
    Compiler(String),
    /// A flag that prevents sites.
    Flag(String),
    /// The compiler makes an object from the file, but no assembly. The text is its message.
    Assembly(String),
    /// The assembly contains something that is not understood well enough to change it. The text
    /// says what, and where.
    Unplaced(String),
    /// The assembler rejects the assembly with the sites. The text is its message.
    Assembler(String),
}

impl PlainReason {
    /// Returns whether this deserves a warning: not for a request of the user, and not for files
    /// that are not C or C++.
    pub(crate) fn is_worth_a_warning(&self) -> bool {
        match self {
            Self::Asked | Self::Off => false,
            Self::Language(extension) => !matches!(extension.as_str(), "s" | "S" | "asm" | "sx"),
            _ => true,
        }
    }

    /// Returns whether this is the same for all files of a build, and is printed once.
    pub(crate) fn is_of_the_build(&self) -> bool {
        matches!(self, Self::Portable | Self::Target(_) | Self::Compiler(_) | Self::Flag(_))
    }
}

impl fmt::Display for PlainReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Asked => f.write_str("no sites were asked for"),
            Self::Off => f.write_str("probes are off (--cfg probe_off, or the feature `off` of probe-build)"),
            Self::Portable => f.write_str("code is not patched under --cfg probe_portable"),
            Self::Target(target) => {
                write!(f, "code is not patched on this target ({target}), only on x86-64 Linux")
            }
            Self::Language(extension) => write!(f, "not C or C++ (.{extension})"),
            Self::Compiler(compiler) => write!(f, "{compiler}; sites are placed with gcc and clang"),
            Self::Flag(flag) => write!(f, "sites are not placed in what {flag} makes"),
            Self::Assembly(message) => write!(f, "the compiler makes no assembly of it: {message}"),
            Self::Unplaced(message) => write!(f, "{message}"),
            Self::Assembler(message) => write!(f, "the assembler refuses its sites: {message}"),
        }
    }
}
