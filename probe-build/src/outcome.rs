//! The places of sites in C and C++ functions, and the outcome of one function.

use core::fmt;

/// The strategy by which functions of C and C++ get their sites.
///
/// ```
/// assert_eq!(probe_build::Sites::default(), probe_build::Sites::EntryReturn);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Sites {
    /// One site at each function's entry and one before each of its returns and tail calls. The
    /// compiler's code stays unchanged. Functions that the compiler inlined have no sites.
    #[default]
    EntryReturn,
    /// The compiler's own hooks (`-finstrument-functions`); each call of a hook becomes a site.
    /// Inlined functions have sites, too. The code is slower, because the compiler assumes real
    /// calls.
    InstrumentFunctions,
    /// No sites at all.
    None,
}

/// The outcome of one function. Each function of a file has exactly one.
///
/// ```
/// use probe_build::{Exclusion, Outcome};
/// assert_eq!(Outcome::Excluded(Exclusion::SystemHeader).to_string(), "excluded: it comes from a system header");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// It has sites.
    #[non_exhaustive]
    Placed {
        /// Sites at its entry. More than one if the compiler inlined it
        /// (`Sites::InstrumentFunctions`).
        entries: usize,
        /// Sites before its returns and tail calls.
        exits: usize,
        /// Parts whose last instruction never continues, such as the call of a function that never
        /// returns. These have no exits.
        dead_ends: usize,
        /// Calls of a hook in its body whose functions are unknown. They were removed
        /// (`Sites::InstrumentFunctions`).
        unknown_hooks: usize,
    },
    /// The user or a default excluded the function.
    Excluded(Exclusion),
    /// The function was not understood, and stays as the compiler made it.
    LeftOut(Reason),
}

/// Why a function was excluded.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Exclusion {
    /// This glob of `exclude_functions` matches its path.
    Function(String),
    /// This glob of `exclude_files` matches its file.
    File(String),
    /// The user chose functions or files, and none of them is this one (`probe-cc`).
    NotChosen,
    /// It comes from a system header.
    SystemHeader,
    /// It has fewer instructions than the setting requires.
    TooSmall {
        /// Its instructions.
        instructions: usize,
        /// The required number of instructions.
        minimum: usize,
    },
    /// The compiler put no hooks into it (`Sites::InstrumentFunctions`), because it generated the
    /// function itself, or because the function has the attribute `no_instrument_function`.
    NoHooks,
}

/// Why, and where in the assembly, a function was not understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// The cause.
    pub cause: Cause,
    /// Its line in the compiler's assembly, from 1.
    pub line: usize,
}

/// Why a function has no sites.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// A line that is not understood.
    Line(String),
    /// A directive, or data, that compilers do not put into functions.
    Directive(String),
    /// An indirect jump of which the compiler does not say whether it stays in the function.
    IndirectJump,
    /// A jump that is neither to a label of the function nor to another function.
    Jump(String),
    /// A jump through memory below the stack pointer, which an active site would overwrite.
    BelowStackPointer,
    /// Inline assembly that returns, jumps away or emits code that is not understood.
    InlineAssembly(String),
    /// All of its code is inline assembly.
    Naked,
    /// The function is written in assembly, outside any function or inside another one. Its live
    /// registers are unknown.
    Assembly,
    /// clang does not name it beside its label, so it may be written in assembly.
    Unannounced,
    /// It returns to an exception handler's frame.
    ExceptionReturn,
    /// It returns from an interrupt, or by another special return.
    SpecialReturn(String),
    /// A call of a label in the function, after which jumps act as returns.
    CallOfLabel,
    /// Its stack grows by `__morestack`, which depends on the exact bytes of the compiler's code.
    SplitStack,
    /// A prefix on a line of its own before an exit.
    Prefix,
    /// Its start is missing: a part of a function that is not in this file.
    NoStart,
    /// Its end is missing.
    NoEnd,
    /// No instruction in it returns, jumps away or calls, so execution would continue into the data
    /// or label behind it.
    NoExit,
    /// It begins within another function.
    Nested,
    /// It chooses a function while the program is loaded (`ifunc`).
    IndirectFunction,
    /// The compiler's own code for calls and returns through a thunk.
    Thunk,
    /// Its name or file is too long for a definition. The value is their length in bytes.
    Name(usize),
    /// The function has this many hook calls whose functions are unknown.
    Hooks(usize),
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Placed { entries, exits, dead_ends, unknown_hooks } => {
                write!(f, "{entries} entries, {exits} exits")?;
                if *dead_ends > 0 {
                    write!(f, ", {dead_ends} ends without exit")?;
                }
                if *unknown_hooks > 0 {
                    write!(f, ", {unknown_hooks} hooks of unknown functions removed")?;
                }
                Ok(())
            }
            Self::Excluded(why) => write!(f, "excluded: {why}"),
            Self::LeftOut(why) => write!(f, "left out: {why}"),
        }
    }
}

impl fmt::Display for Exclusion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Function(glob) => write!(f, "exclude_functions(\"{glob}\") matches its path"),
            Self::File(glob) => write!(f, "exclude_files(\"{glob}\") matches its file"),
            Self::NotChosen => f.write_str("no line of the filter chooses it"),
            Self::NoHooks => f.write_str("the compiler put no hooks into it"),
            Self::SystemHeader => f.write_str("it comes from a system header"),
            Self::TooSmall { instructions, minimum } => {
                write!(f, "it has {instructions} instructions, fewer than {minimum}")
            }
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (line {} of the assembly)", self.cause, self.line)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(what) => write!(f, "{what}"),
            Self::Directive(name) => write!(f, "the directive `{name}` within a function"),
            Self::IndirectJump => f.write_str(
                "an indirect jump that may stay in the function or leave it; the compiler does not say which",
            ),
            Self::Jump(to) => {
                write!(f, "a jump to `{to}`, which is neither a label of the function nor a function")
            }
            Self::BelowStackPointer => f.write_str("a jump through memory below the stack pointer"),
            Self::InlineAssembly(what) => write!(f, "inline assembly with `{what}`"),
            Self::Naked => f.write_str("it is all inline assembly"),
            Self::Assembly => f.write_str("it is written in assembly"),
            Self::Unannounced => {
                f.write_str("clang does not say that it is its own, so it may be written in assembly")
            }
            Self::ExceptionReturn => f.write_str("it returns into an exception handler's frame"),
            Self::SpecialReturn(what) => write!(f, "it ends with `{what}`"),
            Self::CallOfLabel => f.write_str("a call of a label within the function"),
            Self::SplitStack => f.write_str("its stack is split (`__morestack`)"),
            Self::Prefix => f.write_str("a prefix on a line of its own before an exit"),
            Self::NoStart => f.write_str("a part of a function whose start is not in this file"),
            Self::NoEnd => f.write_str("its end is not seen"),
            Self::NoExit => f.write_str("it runs on into what comes after it, so it is no function"),
            Self::Nested => f.write_str("it begins within another function, or another within it"),
            Self::IndirectFunction => f.write_str("it is an indirect function (`ifunc`)"),
            Self::Thunk => f.write_str("it is the compiler's thunk for calls or returns"),
            Self::Name(bytes) => write!(f, "its name and file take {bytes} bytes, too many for a definition"),
            Self::Hooks(count) => {
                write!(f, "{count} calls of a hook for functions that could not be made out")
            }
        }
    }
}
