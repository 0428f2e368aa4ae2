//! Integration tests live in `tests/`; what several of them share is here.
