//! What became of one function.

use core::fmt;

/// What became of one function: each function that a file holds has exactly one outcome.
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
        /// Sites at its entry. More than one where the compiler inlined it
        /// (`Sites::InstrumentFunctions`).
        entries: usize,
        /// Sites before its returns and tail calls.
        exits: usize,
        /// Parts of it that end in an instruction after which nothing follows, such as the call of
        /// a function that never returns: no exits.
        dead_ends: usize,
        /// Calls of a hook in its body of which it is not known what function they speak of; they
        /// were removed (`Sites::InstrumentFunctions`).
        unknown_hooks: usize,
    },
    /// The user, or a default, did not want it.
    Excluded(Exclusion),
    /// It was not understood, and is as the compiler made it.
    LeftOut(Reason),
}

/// Why a function was not wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Exclusion {
    /// This glob of `exclude_functions` matches its path.
    Function(String),
    /// This glob of `exclude_files` matches its file.
    File(String),
    /// It comes from a system header.
    SystemHeader,
    /// It has fewer instructions than asked for.
    TooSmall {
        /// Its instructions.
        instructions: usize,
        /// As many were asked for.
        minimum: usize,
    },
    /// The compiler put no hooks into it (`Sites::InstrumentFunctions`): it made the function
    /// itself, or was told to (`no_instrument_function`).
    NoHooks,
}

/// Why, and where in the assembly, a function was not understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// What was found.
    pub cause: Cause,
    /// Its line in the compiler's assembly, from 1.
    pub line: usize,
}

/// What kept a function from getting sites.
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
    /// Inline assembly that returns, jumps away or emits what is not understood.
    InlineAssembly(String),
    /// All of its code is inline assembly.
    Naked,
    /// It is written in assembly, outside of any function (or in one, beside it): what lives where
    /// is not known.
    Assembly,
    /// clang does not name it beside its label, so it may be written in assembly.
    Unannounced,
    /// It returns to an exception handler's frame.
    ExceptionReturn,
    /// It returns from an interrupt, or by another special return.
    SpecialReturn(String),
    /// A call of a label of its own, after which returns are jumps.
    CallOfLabel,
    /// Its stack grows by `__morestack`, which expects the compiler's very bytes.
    SplitStack,
    /// A prefix on a line of its own before an exit.
    Prefix,
    /// Its start is not seen: a part of a function that is not in this file.
    NoStart,
    /// Its end is not seen.
    NoEnd,
    /// Nothing in it returns, jumps away or calls, and what comes after it would be executed after
    /// it: data, or a label.
    NoExit,
    /// It begins within another function.
    Nested,
    /// It chooses a function while the program is loaded (`ifunc`).
    IndirectFunction,
    /// The compiler's own code for calls and returns by way of a thunk.
    Thunk,
    /// Its name or file is too long for a definition: this many bytes.
    Name(usize),
    /// This many calls of a hook, in this function, of which it is not known what function they
    /// speak of.
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
