//! Integration tests: one binary, a module per subject. The modules say `cfg(test)` so that the lints know them as tests.

#[cfg(test)]
mod endpoints;
#[cfg(test)]
mod mock_llm;
