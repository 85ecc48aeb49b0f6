//! The template of students that have none of their own.

/// ChatML with tools, in the format of Qwen3's instruct models (their template without thinking): what it renders is equal, byte for
/// byte, so that a nano student and a real one differ in nothing but the vocabulary.
pub const NANO_TEMPLATE: &str = include_str!("nano.jinja");
