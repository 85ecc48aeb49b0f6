//! The `harness-evo` program.

fn main() {}
