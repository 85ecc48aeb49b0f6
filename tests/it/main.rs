//! Integration tests: one binary, a module per subject.

#[cfg(test)]
mod cli;
#[cfg(test)]
mod docs;
#[cfg(test)]
mod endpoint_run;
#[cfg(test)]
mod endpoints;
#[cfg(test)]
mod episodes;
#[cfg(test)]
mod eval;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod mock_llm;
#[cfg(test)]
mod session;
#[cfg(test)]
mod tasks;
#[cfg(test)]
mod train;
