//! Building the fixture programs of the linker matrix and of the codegen test.
