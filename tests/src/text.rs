//! The text of this process against the text of its file.
