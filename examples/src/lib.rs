//! Examples: see the `.rs` files beside `src/`.
