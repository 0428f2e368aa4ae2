//! A call, its file, and its result (pure).

/// A call.
///
/// ```
/// let call = probe_inject::Call { function: 0x1000, arguments: [1, 2, 0], ..Default::default() };
/// assert_eq!(call.explains, 0);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Call<'a> {
    /// The function, of the C calling convention.
    pub function: u64,
    /// Its arguments. With a file, the first one is replaced by the address of a path.
    pub arguments: [u64; 3],
    /// A function without arguments that is called if the first one returns 0, and returns a text
    /// of C, such as `dlerror`; 0 for none.
    pub explains: u64,
    /// A file in memory that exists during the call. Its path is the first argument.
    pub file: Option<MemoryFile<'a>>,
    /// Whether the first two arguments are replaced by the address and the bytes of a text, which
    /// the function may write, with a terminator.
    pub takes_text: bool,
}

/// A file in memory.
///
/// ```
/// let file = probe_inject::MemoryFile { name: "libnothing.so", bytes: b"\x7fELF" };
/// assert!(file.name.len() < 128);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryFile<'a> {
    /// Its name, for those who look at the process: `/memfd:NAME`. It has at most 127 bytes.
    pub name: &'a str,
    /// Its bytes.
    pub bytes: &'a [u8],
}

/// The result of a call.
///
/// ```
/// assert_eq!(probe_inject::Returned::default().value, 0);
/// ```
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Returned {
    /// The value.
    pub value: u64,
    /// The text that the function has written, or that explains the value 0.
    pub text: String,
}
