//! Code that tests compile and link: C and C++, from small functions to whole code bases; programs
//! with each linker, profile and version of this workspace; other people's crates.
//!
//! Each file runs in a process of its own: see `probe_tests::processes`.

mod accepted;
mod c_api_codegen;
mod c_api_object;
mod c_api_values;
mod c_backtrace;
mod c_flags;
mod c_held;
mod c_matrix;
mod c_paired;
mod c_registers;
mod c_replaced;
mod c_shares;
mod c_stack;
mod c_texts;
mod c_toggle;
mod c_values;
mod callers;
mod codegen;
mod crates;
mod discovered;
mod link;
mod mixed;
mod real_c;
mod real_cpp;
mod shipped;
mod sleds;
mod sqlite_counts;
mod sqlite_listing;
mod sqlite_toggled;
mod usdt;
mod versions;

#[cfg(unix)]
probe_tests::a_process_for_each_file!(
    link, c_matrix, shipped, mixed, usdt, codegen, real_cpp, versions, crates, c_toggle, c_values,
    c_replaced, callers, sleds, real_c
);
