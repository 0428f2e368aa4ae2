//! A call, its file, and its result (pure).

/// A call of a function in another process.
///
/// ```
/// use probe_inject::RemoteCall;
///
/// let call = RemoteCall { function: 0x1000, arguments: [1, 2, 0], ..Default::default() };
/// assert_eq!(call.explains, 0);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct RemoteCall<'a> {
    /// The address of a function of the C calling convention.
    pub function: u64,
    /// Its arguments. With a file, the address of the file's path replaces the first one.
    pub arguments: [u64; 3],
    /// A function without arguments that explains a result of 0 by a text of C, such as `dlerror`;
    /// 0 for none.
    pub explains: u64,
    /// A file in memory that exists during the call. Its path is the first argument.
    pub file: Option<MemoryFile<'a>>,
    /// Whether the address and the bytes of a buffer replace the first two arguments. The function
    /// may write a text of C there.
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
    /// Its name, which tools show as `/memfd:NAME`. It has at most 127 bytes.
    pub name: &'a str,
    /// Its content.
    pub bytes: &'a [u8],
}

/// The result of a call.
///
/// ```
/// assert_eq!(probe_inject::CallResult::default().value, 0);
/// ```
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct CallResult {
    /// The value that the function has returned.
    pub value: u64,
    /// The text that the function has written, or that explains the value 0.
    pub text: String,
}
