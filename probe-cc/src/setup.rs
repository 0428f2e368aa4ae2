//! Mistakes in how this program is set up. Everything else is the compiler's affair, or costs sites
//! only.

use std::fmt;

/// A mistake, which ends the program.
#[derive(Debug)]
pub(crate) enum Setup {
    None { language: &'static str, all: [&'static str; 3], variable: &'static str },
    Missing { variable: &'static str, program: String },
    Empty(&'static str),
    NotText(&'static str),
    Itself { variable: &'static str, value: String },
    Again { compiler: String, variable: &'static str },
    Filter { origin: String, error: String },
    Log { file: String, error: std::io::Error },
    Run { program: String, error: std::io::Error },
}

impl fmt::Display for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None { language, all: [first, second, third], variable } => write!(
                f,
                "no {language} compiler found: PATH has no other {first}, {second} or {third}; name one in {variable}"
            ),
            Self::Missing { variable, program } => {
                write!(f, "{variable} names `{program}`, which is no program in PATH")
            }
            Self::Empty(variable) => write!(f, "{variable} is blank; name a compiler, or unset it"),
            Self::NotText(variable) => write!(f, "{variable} is not UTF-8"),
            Self::Itself { variable, value } => write!(
                f,
                "{variable} is `{value}`, which is this program itself; name the real compiler, such as gcc"
            ),
            Self::Again { compiler, variable } => write!(
                f,
                "the compiler `{compiler}` runs this program again; name the real compiler in {variable}"
            ),
            Self::Filter { origin, error } => write!(f, "{origin}: {error}"),
            Self::Log { file, error } => write!(f, "PROBE_CC_LOG: can't write {file}: {error}"),
            Self::Run { program, error } => write!(f, "can't run {program}: {error}"),
        }
    }
}
