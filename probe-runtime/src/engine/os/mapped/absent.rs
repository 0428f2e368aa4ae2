//! A system on which files are not mapped.

use std::convert::Infallible;
use std::ffi::CStr;
use std::io;
use std::sync::atomic::AtomicU64;

/// Memory of a file. No value exists.
#[derive(Debug)]
pub(crate) struct Mapped(Infallible);

/// Parts of a file.
#[derive(Clone, Copy, Debug)]
#[expect(dead_code, reason = "nobody maps a file here")]
pub(crate) struct Parts {
    pub(crate) first: usize,
    pub(crate) other: usize,
    pub(crate) all: usize,
}

impl Mapped {
    pub(crate) fn new(_private: usize, _shared: Parts) -> io::Result<Self> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "files can be mapped on Linux only"))
    }

    pub(crate) fn private_start(&self) -> usize {
        match self.0 {}
    }

    pub(crate) fn shared_start(&self) -> usize {
        match self.0 {}
    }

    pub(crate) fn put(&self, _file: &NewFile) -> Result<(), i32> {
        match self.0 {}
    }

    pub(crate) fn put_private(&self) -> Result<(), i32> {
        match self.0 {}
    }

    pub(crate) fn is_cut_off(&self) -> bool {
        match self.0 {}
    }
}

pub(crate) fn page() -> usize {
    4096
}

/// A file that nobody makes.
#[derive(Debug)]
pub(crate) struct NewFile(Infallible);

impl NewFile {
    pub(crate) fn create(_path: &CStr) -> Result<Self, i32> {
        Err(0)
    }

    pub(crate) fn id(&self) -> FileId {
        match self.0 {}
    }

    pub(crate) fn reserve(&self, _bytes: usize) -> Result<(), i32> {
        match self.0 {}
    }

    pub(crate) fn write(&self, _bytes: &[u8], _at: usize) -> Result<(), i32> {
        match self.0 {}
    }

    pub(crate) fn write_words(&self, _words: &[AtomicU64], _at: usize) -> Result<(), i32> {
        match self.0 {}
    }
}

/// The number by which the system tells a file from all others.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct FileId(pub(crate) [u64; 2]);

pub(crate) const TOO_LONG: i32 = 0;

pub(crate) fn id(_path: &CStr) -> Option<FileId> {
    None
}

pub(crate) fn remove(_path: &CStr) {}

/// Nothing, since there is no error number.
#[derive(Debug)]
pub(crate) struct KeptErrno(());

impl KeptErrno {
    pub(crate) fn new() -> Self {
        Self(())
    }
}
